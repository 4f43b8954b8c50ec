-- The greatest token that any writer has shown. One row.
CREATE TABLE fence (token BIGINT NOT NULL);
INSERT INTO fence VALUES (0);

-- The data of the single writer.
CREATE TABLE guarded (
	seq    INTEGER PRIMARY KEY,
	number BIGINT NOT NULL,
	writer TEXT NOT NULL,
	token  BIGINT NOT NULL
);

-- Each row shows the token of its writer, so an UPDATE must set it. If the token is lower than
-- the greatest one, the row and its transaction are refused. A read or a DELETE shows no token:
-- its transaction must begin with the UPDATE of the fence.
CREATE TRIGGER fenced_insert BEFORE INSERT ON guarded
BEGIN
	SELECT RAISE(ABORT, 'token ' || NEW.token || ' is stale: ' || token || ' has written')
		FROM fence WHERE token > NEW.token;
	UPDATE fence SET token = NEW.token;
END;
CREATE TRIGGER fenced_update BEFORE UPDATE ON guarded
BEGIN
	SELECT RAISE(ABORT, 'token ' || NEW.token || ' is stale: ' || token || ' has written')
		FROM fence WHERE token > NEW.token;
	UPDATE fence SET token = NEW.token;
END;

-- The same table without a guard, for comparison.
CREATE TABLE unguarded (
	seq    INTEGER PRIMARY KEY,
	number BIGINT NOT NULL,
	writer TEXT NOT NULL,
	token  BIGINT NOT NULL
);
