"""The tables and functions of locks.

Each call that holds locks or waits for them has a row for each name: it waits until, for each of its names, the rows of
those that hold it and of those that came before leave room for it. All its names are granted at once, so that those who
wait hold nothing. Rows belong to a session, which is alive as long as its connection holds an advisory lock; those of a
dead one are deleted by whoever finds them in the way.

Calls of one name take turns by an advisory lock of the transaction; those that set no limit need no turns among
themselves, so that calls which only exclude exclusive ones run side by side. Whoever leaves wakes up the first that
waits, and whoever is granted a name wakes up the next.

The table isn't logged: nothing of it counts after a crash of the server, in which all sessions end. The sequence of
tokens is: each session advances it by a million, so that a token can't come again, although a commit of a table that
isn't logged doesn't wait for the disk.
"""

from __future__ import annotations

from typing import Final

LOCKS: Final = """
    CREATE SEQUENCE tokens;
    CREATE SEQUENCE sessions AS integer CYCLE;
    CREATE UNLOGGED TABLE locks (
        name bytea,
        ticket bigint,
        hold uuid NOT NULL,
        session integer NOT NULL,
        most integer,
        is_nested boolean NOT NULL,
        is_held boolean NOT NULL DEFAULT false,
        is_blocked boolean NOT NULL DEFAULT false, -- here, while it waits
        PRIMARY KEY (name, ticket)
    ) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1);
    CREATE INDEX ON locks (hold);
    CREATE INDEX ON locks (session);
    CREATE INDEX ON locks (name) WHERE most IS NOT NULL;

    CREATE FUNCTION is_dead(_session integer) RETURNS boolean LANGUAGE sql AS $$
        SELECT pg_try_advisory_xact_lock_shared(hashtext(current_schema::text), _session);
    $$;

    -- Wakes up the first one that is blocked at a name. Nested calls come first: others may wait for their callers.
    CREATE FUNCTION wake_next(_name bytea) RETURNS void LANGUAGE sql AS $$
        SELECT pg_notify('pegboard ' || current_schema::text || ' ' || session, hold::text) FROM (
            SELECT session, hold FROM locks WHERE name = _name AND is_blocked ORDER BY is_nested DESC, ticket LIMIT 1
        ) AS first;
    $$;

    -- Deletes the rows of dead sessions. Whoever calls it has taken turns for these names.
    CREATE FUNCTION drop_dead(_names bytea[], _own integer) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        dropped bytea;
    BEGIN
        FOR dropped IN
            DELETE FROM locks WHERE (name, ticket) IN (
                SELECT name, ticket FROM locks WHERE name = ANY (_names) AND session IN (
                    SELECT session FROM (SELECT DISTINCT session FROM locks WHERE name = ANY (_names)) AS known
                    WHERE session <> _own AND is_dead(session)
                ) ORDER BY name, ticket FOR UPDATE
            ) RETURNING name
        LOOP
            PERFORM wake_next(dropped);
        END LOOP;
    END $$;

    CREATE FUNCTION take_turns(_names bytea[], _mosts integer[]) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        turn record;
    BEGIN
        FOR turn IN
            SELECT hashtextextended(encode(name, 'hex'), hashtext(current_schema::text)) AS key,
                bool_and(most IS NULL) AS is_shared
            FROM unnest(_names, _mosts) AS claim (name, most) GROUP BY 1 ORDER BY 1
        LOOP
            IF turn.is_shared THEN
                PERFORM pg_advisory_xact_lock_shared(turn.key);
            ELSE
                PERFORM pg_advisory_xact_lock(turn.key);
            END IF;
        END LOOP;
    END $$;

    -- Deletes the rows of all dead sessions, and wakes up those who wait for them. A session takes itself for dead, as
    -- it can acquire its own lock again.
    CREATE FUNCTION sweep(_own integer) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        names bytea[];
    BEGIN
        SELECT array_agg(DISTINCT name) INTO names FROM locks WHERE session IN (
            SELECT session FROM (SELECT DISTINCT session FROM locks) AS known WHERE session <> _own AND is_dead(session)
        );
        IF names IS NOT NULL THEN
            PERFORM take_turns(names, array_fill(1, ARRAY[cardinality(names)]));
            PERFORM drop_dead(names, _own);
        END IF;
    END $$;

    CREATE FUNCTION open_session() RETURNS integer LANGUAGE plpgsql AS $$
    DECLARE
        number integer;
    BEGIN
        LOOP
            number := nextval('sessions');
            EXIT WHEN pg_try_advisory_lock(hashtext(current_schema::text), number);
        END LOOP;
        DELETE FROM locks WHERE session = number;
        PERFORM setval('tokens', nextval('tokens') + 1000000);
        RETURN number;
    END $$;

    -- The first of a hold's names that has no room for it; NULL if all have. The holds that it is within don't count.
    CREATE FUNCTION blocked_at(_hold uuid, _within uuid[]) RETURNS bytea LANGUAGE plpgsql AS $$
    DECLARE
        mine record;
        room integer;
        used integer;
    BEGIN
        FOR mine IN SELECT * FROM locks WHERE hold = _hold ORDER BY name LOOP
            SELECT least(mine.most, min(most)) INTO room FROM locks
            WHERE name = mine.name AND most IS NOT NULL AND hold <> ALL (_hold || _within)
            AND (is_held OR (NOT mine.is_nested AND ticket < mine.ticket));
            IF room IS NOT NULL THEN
                SELECT count(*) INTO used FROM (
                    SELECT FROM locks WHERE name = mine.name AND hold <> ALL (_hold || _within)
                    AND (is_held OR (NOT mine.is_nested AND ticket < mine.ticket)) LIMIT room
                ) AS before;
                IF used >= room THEN
                    RETURN mine.name;
                END IF;
            END IF;
        END LOOP;
        RETURN NULL;
    END $$;

    -- Asks for all locks of a hold, at first and again when it was woken up; returns its token once they are granted.
    CREATE FUNCTION try_locks(_session integer, _hold uuid, _names bytea[], _mosts integer[], _within uuid[])
    RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
        number bigint;
        blocked bytea;
        changed record;
    BEGIN
        PERFORM take_turns(_names, _mosts);
        IF is_dead(_session) THEN
            RAISE EXCEPTION 'the session of these locks has ended' USING ERRCODE = 'PB001';
        END IF;
        IF NOT EXISTS (SELECT FROM locks WHERE hold = _hold) THEN
            number := nextval('tokens');
            INSERT INTO locks (name, ticket, hold, session, most, is_nested)
            SELECT name, number, _hold, _session, min(most), cardinality(_within) > 0
            FROM unnest(_names, _mosts) AS claim (name, most) GROUP BY name;
        END IF;
        blocked := blocked_at(_hold, _within);
        IF blocked IS NOT NULL THEN
            PERFORM drop_dead(_names, _session);
            blocked := blocked_at(_hold, _within);
        END IF;
        IF blocked IS NULL THEN
            UPDATE locks SET is_held = true, is_blocked = false WHERE hold = _hold;
            PERFORM wake_next(name) FROM locks WHERE hold = _hold AND most IS DISTINCT FROM 1;
            RETURN nextval('tokens');
        END IF;
        FOR changed IN
            UPDATE locks SET is_blocked = (name = blocked) WHERE hold = _hold AND is_blocked <> (name = blocked)
            RETURNING name, is_blocked
        LOOP
            IF NOT changed.is_blocked THEN
                PERFORM wake_next(changed.name);
            END IF;
        END LOOP;
        RETURN NULL;
    END $$;

    CREATE FUNCTION release_locks(_hold uuid) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        released record;
    BEGIN
        PERFORM take_turns(array_agg(name), array_agg(most)) FROM locks WHERE hold = _hold;
        FOR released IN DELETE FROM locks WHERE hold = _hold RETURNING name LOOP
            PERFORM wake_next(released.name);
        END LOOP;
    END $$;
"""
