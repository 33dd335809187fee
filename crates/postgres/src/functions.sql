-- The functions of a store, in the schema of its tables.

-- Commits a group of members to one shard. Each member has a number from 1; no key or stripe that one of them writes is
-- checked or written by another. A member whose preconditions do not all hold is left out: its LSN is null, and `failed` is
-- the place of the first. All statements after the first see what was committed before the head was locked, which requires
-- the isolation level READ COMMITTED.
CREATE FUNCTION kv_commit(
  s int, e bigint, advances bool, is_logged bool, is_control bool, ids uuid[], touched bytea[],
  cm int[], cn int[], ck bytea[], cv bigint[],             -- keys: member, place, key, version (-1: absent)
  rm int[], rn int[], rs bytea[], rl bigint[],             -- stripes: member, place, stripe, unchanged since
  dm int[], dk bytea[], dt bytea[],                        -- deletes: member, key, tail
  wm int[], wk bytea[], wt bytea[], wv bytea[], wz bool[], -- puts: member, key, tail, value, versioned
  fm int[], fp bytea[], fn int[], fv bytea[]               -- feed: member, prefix, place in the commit, value
) RETURNS TABLE (member int, lsn bigint, failed int) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  h record;
  bad int[];
  places int[];
  lsns bigint[];
  won int := 0;
BEGIN
  SELECT p.epoch, p.lsn, p.state, p.trimmed, p.trimmed_id, p.journal, p.journal_until INTO h
    FROM head p WHERE p.shard = s FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'gone' USING ERRCODE = 'KV002';
  ELSIF h.epoch <> e OR h.state <> 1 THEN
    RAISE EXCEPTION 'gone' USING ERRCODE = 'KV002', DETAIL = h.epoch::text;
  ELSIF EXISTS (SELECT 1 FROM unnest(ids) i WHERE i <= h.trimmed_id) THEN
    RAISE EXCEPTION 'too late' USING ERRCODE = 'KV003', DETAIL = h.trimmed_id::text;
  END IF;
  SELECT array_agg(f.m), array_agg(f.n) INTO bad, places FROM (
    SELECT x.m, min(x.n) AS n FROM (
      SELECT c.m, c.n FROM unnest(cm, cn, ck, cv) c(m, n, k, v)
       WHERE coalesce((SELECT ver FROM kv WHERE kv.shard = s AND kv.key = c.k), -1) <> c.v
      UNION ALL
      SELECT r.m, r.n FROM unnest(rm, rn, rs, rl) r(m, n, b, l)
       WHERE r.l < h.trimmed OR EXISTS (
         SELECT 1 FROM log WHERE log.shard = s AND log.lsn > r.l AND position(r.b IN log.touched) > 0)
    ) x GROUP BY x.m) f;
  FOR i IN 1 .. cardinality(ids) LOOP
    IF i = ANY (bad) THEN
      lsns[i] := NULL;
    ELSE
      won := won + 1;
      lsns[i] := h.lsn + CASE WHEN advances THEN won ELSE 0 END;
    END IF;
  END LOOP;
  IF won > 0 AND advances THEN
    IF h.journal_until <= clock_timestamp() THEN
      h.journal := NULL; -- Nobody reads it any more.
    END IF;
    UPDATE head p SET lsn = h.lsn + won, control = CASE WHEN is_control THEN h.lsn + won ELSE p.control END,
        journal = h.journal WHERE p.shard = s;
    IF h.journal IS NOT NULL THEN
      INSERT INTO journal (shard, lsn, key, tail)
        SELECT s, lsns[d.m], d.k, d.t FROM unnest(dm, dk, dt) d(m, k, t) WHERE lsns[d.m] IS NOT NULL
        UNION ALL SELECT s, lsns[w.m], w.k, w.t FROM unnest(wm, wk, wt) w(m, k, t) WHERE lsns[w.m] IS NOT NULL
        UNION ALL SELECT s, lsns[f.m], f.p || int8send(lsns[f.m]) || substring(int4send(f.q) FROM 3), NULL
          FROM unnest(fm, fp, fn) f(m, p, q) WHERE lsns[f.m] IS NOT NULL;
    END IF;
    IF bad IS NOT NULL THEN
      SELECT array_agg(d.k) INTO dk FROM unnest(dm, dk) d(m, k) WHERE lsns[d.m] IS NOT NULL;
    END IF;
    IF cardinality(dk) > 0 THEN
      DELETE FROM kv WHERE kv.shard = s AND kv.key = ANY (dk);
    END IF;
    INSERT INTO kv SELECT s, w.k, CASE WHEN w.z THEN lsns[w.m] ELSE 0 END, w.v, w.t
      FROM unnest(wm, wk, wt, wv, wz) w(m, k, t, v, z) WHERE lsns[w.m] IS NOT NULL
      ON CONFLICT (shard, key) DO UPDATE SET ver = excluded.ver, value = excluded.value, tail = excluded.tail;
    INSERT INTO kv SELECT s, f.p || int8send(lsns[f.m]) || substring(int4send(f.q) FROM 3), 0, f.v, NULL
      FROM unnest(fm, fp, fn, fv) f(m, p, q, v) WHERE lsns[f.m] IS NOT NULL;
  END IF;
  IF is_logged THEN
    INSERT INTO log (shard, id, lsn, touched) SELECT s, u.id, lsns[u.i], u.t
      FROM unnest(ids, touched) WITH ORDINALITY u(id, t, i) WHERE lsns[u.i] IS NOT NULL;
  END IF;
  RETURN QUERY SELECT i, lsns[i], places[array_position(bad, i)] FROM generate_series(1, cardinality(ids)) i;
END $$;

-- What became of a commit: its LSN in each shard; `{}` if it never happens; null if nobody can tell. The entry that keeps it
-- out waits for a transaction that has written one of the same id, and the lock keeps the log from being trimmed meanwhile.
CREATE FUNCTION kv_resolve(shards int[], i uuid) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  h record;
  lsns bigint[];
BEGIN
  SELECT p.trimmed_id INTO h FROM head p WHERE p.shard = shards[1] FOR SHARE;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  IF i > h.trimmed_id THEN
    INSERT INTO log (shard, id, resolved_at) VALUES (shards[1], i, clock_timestamp()) ON CONFLICT DO NOTHING;
  END IF;
  SELECT array_agg(log.lsn ORDER BY n.at) INTO lsns FROM unnest(shards) WITH ORDINALITY n(shard, at)
    JOIN log ON log.shard = n.shard AND log.id = i;
  IF lsns[1] IS NOT NULL THEN
    RETURN lsns;
  ELSIF lsns IS NULL THEN
    RETURN NULL;
  END IF;
  RETURN '{}';
END $$;

-- Forgets all but the last commits of a shard, and old entries of commits that never happen.
CREATE FUNCTION kv_trim(s int, kept bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  up_to bigint;
  last uuid;
BEGIN
  SELECT p.lsn - kept INTO up_to FROM head p WHERE p.shard = s AND p.lsn - kept > p.trimmed FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  WITH gone AS (
    DELETE FROM log WHERE log.shard = s
       AND (log.lsn <= up_to OR (log.lsn IS NULL AND log.resolved_at < clock_timestamp() - interval '2 minutes'))
    RETURNING log.id)
  SELECT id INTO last FROM gone ORDER BY id DESC LIMIT 1;
  UPDATE head p SET trimmed = up_to, trimmed_id = greatest(p.trimmed_id, last) WHERE p.shard = s;
END $$;
