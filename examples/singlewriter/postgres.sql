-- Who may write: the greatest token that a writer has shown. One row.
CREATE TABLE fence (token BIGINT NOT NULL);
INSERT INTO fence VALUES (0);

-- What the single writer keeps.
CREATE TABLE guarded (
	seq    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	number BIGINT NOT NULL,
	writer TEXT NOT NULL,
	token  BIGINT NOT NULL
);

-- Each row shows the token of its writer; a lower one than the last is refused, and the
-- whole transaction with it. The update locks the row of the fence until the transaction
-- ends, so that no greater token comes between.
CREATE FUNCTION show_token() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE fence SET token = NEW.token WHERE token <= NEW.token;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'token % is of the past: % has written', NEW.token,
			(SELECT token FROM fence);
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER fenced BEFORE INSERT ON guarded FOR EACH ROW EXECUTE FUNCTION show_token();

-- The same without a guard, to see what would happen.
CREATE TABLE unguarded (
	seq    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	number BIGINT NOT NULL,
	writer TEXT NOT NULL,
	token  BIGINT NOT NULL
);
