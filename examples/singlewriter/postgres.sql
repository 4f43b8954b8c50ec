-- The greatest token that any writer has shown. One row.
CREATE TABLE fence (token BIGINT NOT NULL);
INSERT INTO fence VALUES (0);

-- The data of the single writer.
CREATE TABLE guarded (
	seq    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	number BIGINT NOT NULL,
	writer TEXT NOT NULL,
	token  BIGINT NOT NULL
);

-- Each row shows the token of its writer, so an UPDATE must set it. If the token is lower than
-- the greatest one, the row and its transaction are refused. The trigger locks the fence until
-- the transaction ends, so that no greater token can be shown meanwhile. A read or a DELETE shows
-- no token: its transaction must begin with the UPDATE of the fence.
CREATE FUNCTION show_token() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE fence SET token = NEW.token WHERE token <= NEW.token;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'token % is stale: % has written', NEW.token,
			(SELECT token FROM fence);
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER fenced BEFORE INSERT OR UPDATE ON guarded
	FOR EACH ROW EXECUTE FUNCTION show_token();

-- The same table without a guard, for comparison.
CREATE TABLE unguarded (
	seq    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	number BIGINT NOT NULL,
	writer TEXT NOT NULL,
	token  BIGINT NOT NULL
);
