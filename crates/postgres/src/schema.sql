-- The tables of a store, version 3. They are created in a schema of their own; names are found by the
-- search path of the connection, so a database may hold several stores.

CREATE TABLE meta (version int NOT NULL);
INSERT INTO meta VALUES (3);

-- What an account keeps beside its data: keys, and the certificate that the server made. Changed by commands, too, while
-- nodes run.
CREATE TABLE account (name text PRIMARY KEY, value text NOT NULL);

-- Pairs. The key begins with the byte of its space. A key above 2,048 bytes is folded, because an index entry holds at most
-- 2,704: its first bytes, then a hash of the rest; the rest itself is in `tail`, null for all others.
-- `ver` is the LSN of the commit that wrote the pair, zero in spaces without versions.
CREATE TABLE kv (
  shard int NOT NULL,
  key bytea NOT NULL,
  ver bigint NOT NULL,
  value bytea NOT NULL,
  tail bytea,
  PRIMARY KEY (shard, key)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
        autovacuum_vacuum_cost_delay = 0);
-- Large values are compressed before they come here.
ALTER TABLE kv ALTER value SET STORAGE EXTERNAL;

-- Heads of shards. `state`: 0 being made, 1 open, 2 closed, 3 dropped. The commit log has no commits up to the LSN
-- `trimmed`, and none of an id up to `trimmed_id`. `journal` names the journal of the shard, if there is one: until
-- `journal_until` every commit adds to it what it changes, and a later one ends it.
CREATE TABLE head (
  shard int PRIMARY KEY,
  epoch bigint NOT NULL,
  lsn bigint NOT NULL,
  control bigint NOT NULL,
  state smallint NOT NULL,
  trimmed bigint NOT NULL DEFAULT 0,
  trimmed_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
  journal uuid,
  journal_until timestamptz
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- The commit log: the last commits of each shard, with the stripes that they changed, one byte each. Without an LSN it is
-- the id of a commit that was resolved as one that never happens; the primary key keeps it out.
CREATE TABLE log (
  shard int NOT NULL,
  id uuid NOT NULL,
  lsn bigint,
  touched bytea,
  resolved_at timestamptz,
  PRIMARY KEY (shard, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX log_lsn ON log (shard, lsn);

-- The keys that commits have changed in shards with a journal, with the tails of folded ones.
CREATE TABLE journal (shard int NOT NULL, lsn bigint NOT NULL, key bytea NOT NULL, tail bytea);
CREATE INDEX journal_lsn ON journal (shard, lsn);
