-- Who may write: the greatest token that a writer has shown. One row.
CREATE TABLE fence (token BIGINT NOT NULL);
INSERT INTO fence VALUES (0);

-- What the single writer keeps.
CREATE TABLE guarded (
	seq    INTEGER PRIMARY KEY,
	number BIGINT NOT NULL,
	writer TEXT NOT NULL,
	token  BIGINT NOT NULL
);

-- Each row shows the token of its writer; a lower one than the last is refused, and the
-- whole transaction with it.
CREATE TRIGGER fenced BEFORE INSERT ON guarded
BEGIN
	SELECT RAISE(ABORT, 'token ' || NEW.token || ' is of the past: ' || token || ' has written')
		FROM fence WHERE token > NEW.token;
	UPDATE fence SET token = NEW.token;
END;

-- The same without a guard, to see what would happen.
CREATE TABLE unguarded (
	seq    INTEGER PRIMARY KEY,
	number BIGINT NOT NULL,
	writer TEXT NOT NULL,
	token  BIGINT NOT NULL
);
