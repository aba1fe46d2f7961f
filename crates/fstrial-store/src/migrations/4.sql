-- Schema 4: a store that can be asked. Tags; what lists and filters look for, kept beside the documents that hold it;
-- quantiles beside the histograms; and views as an interface for other programs (docs/store-schema.md).
-- The quantiles of earlier histograms are computed right after this file, in the same transaction (schema.rs).

CREATE TABLE tag (
    trial INTEGER NOT NULL REFERENCES trial (id),
    tag TEXT NOT NULL CHECK (tag <> ''),
    PRIMARY KEY (trial, tag)
) STRICT, WITHOUT ROWID;

-- From the environment of the session, as it says; NULL if it does not say.
ALTER TABLE session ADD COLUMN host TEXT;
ALTER TABLE session ADD COLUMN kernel TEXT;
ALTER TABLE session ADD COLUMN device TEXT;
-- What only the session could warn of, as a JSON list of lines; NULL if nothing.
ALTER TABLE session ADD COLUMN warnings TEXT;
UPDATE session SET
    host = json_extract(environment, '$.host'),
    kernel = json_extract(environment, '$.kernel'),
    device = json_extract(environment, '$.device')
WHERE json_valid(environment);

-- Counts of the runs of a trial, kept with each run: a list of trials must not read their runs.
CREATE TABLE tally (
    trial INTEGER PRIMARY KEY REFERENCES trial (id),
    rounds INTEGER NOT NULL CHECK (rounds >= 0),            -- that have at least one run
    runs INTEGER NOT NULL CHECK (runs >= 0),
    failed_runs INTEGER NOT NULL CHECK (failed_runs >= 0)   -- without those that found that an arm cannot do it
) STRICT;
INSERT INTO tally (trial, rounds, runs, failed_runs)
SELECT trial.id, count(DISTINCT run.round), count(run.id),
    count(run.id) FILTER (WHERE run.status = 'failed'
        AND CASE WHEN json_valid(run.failure) THEN json_extract(run.failure, '$.kind') END IS NOT 'cannot')
FROM trial LEFT JOIN run ON run.trial = trial.id GROUP BY trial.id;

-- The cells of a trial that have runs.
CREATE TABLE cell (
    trial INTEGER NOT NULL,
    workload TEXT NOT NULL,
    threads INTEGER NOT NULL CHECK (threads > 0),
    arm TEXT NOT NULL,
    runs INTEGER NOT NULL CHECK (runs > 0),
    PRIMARY KEY (trial, workload, threads, arm),
    FOREIGN KEY (trial, arm) REFERENCES arm (trial, name)
) STRICT, WITHOUT ROWID;
INSERT INTO cell (trial, workload, threads, arm, runs)
SELECT trial, workload, threads, arm, count(*) FROM run GROUP BY trial, workload, threads, arm;

-- NULL where there is no latency, or the histogram does not decode.
ALTER TABLE histogram ADD COLUMN operations INTEGER CHECK (operations >= 0);
ALTER TABLE histogram ADD COLUMN p50_ns INTEGER CHECK (p50_ns >= 0);
ALTER TABLE histogram ADD COLUMN p90_ns INTEGER CHECK (p90_ns >= 0);
ALTER TABLE histogram ADD COLUMN p99_ns INTEGER CHECK (p99_ns >= 0);
ALTER TABLE histogram ADD COLUMN p999_ns INTEGER CHECK (p999_ns >= 0);
ALTER TABLE histogram ADD COLUMN p9999_ns INTEGER CHECK (p9999_ns >= 0);
ALTER TABLE histogram ADD COLUMN max_ns INTEGER CHECK (max_ns >= 0);

-- What refers to a row that is to be removed is found by these.
CREATE INDEX run_of_session ON run (session);
CREATE INDEX measurement_of_facts ON measurement (facts);
CREATE INDEX measurement_of_commands ON measurement (commands);
CREATE INDEX arm_of_facts ON arm (facts);

-- The views are in the words that SQLite and DuckDB share.

CREATE VIEW v_trial AS
SELECT
    trial.id AS trial,
    trial.name AS name,
    last_session.status AS status,
    first_session.started_at AS started_at,
    last_session.ended_at AS ended_at,
    last_session.host AS host,
    last_session.kernel AS kernel,
    last_session.device AS device,
    last_session.program_version AS program_version,
    trial.seed AS seed,
    trial.planned_rounds AS planned_rounds,
    tally.rounds AS rounds,
    tally.runs AS runs,
    tally.failed_runs AS failed_runs
FROM trial
JOIN tally ON tally.trial = trial.id
JOIN (SELECT trial, min(id) AS first_id, max(id) AS last_id FROM session GROUP BY trial) AS ends ON ends.trial = trial.id
JOIN session AS first_session ON first_session.id = ends.first_id
JOIN session AS last_session ON last_session.id = ends.last_id;

CREATE VIEW v_arm AS
SELECT arm.trial AS trial, arm.position AS position, arm.name AS arm, arm.configuration AS configuration, facts.json AS facts
FROM arm LEFT JOIN facts ON facts.id = arm.facts;

CREATE VIEW v_run AS
SELECT
    run.trial AS trial,
    run.id AS run,
    run.session AS session,
    run.round AS round,
    run.slot AS slot,
    run.attempt AS attempt,
    run.arm AS arm,
    run.workload AS workload,
    run.threads AS threads,
    run.started_at AS started_at,
    run.ended_at AS ended_at,
    run.status AS status,
    -- What does not read as JSON is damage, and must not hide all the other runs.
    CASE WHEN json_valid(run.failure) THEN run.failure ->> '$.kind' END AS failure_kind,
    CASE WHEN json_valid(run.failure) THEN run.failure ->> '$.what' END AS failure,
    result.name AS phase,
    result.figure AS figure,
    CASE
        WHEN result.value IS NOT NULL THEN result.value
        WHEN result.figure = 'operations' THEN result.operations * 1e9 / NULLIF(result.duration_ns, 0)
        WHEN result.figure = 'bytes' THEN result.bytes * 1e9 / NULLIF(result.duration_ns, 0)
        WHEN result.figure = 'time' THEN result.duration_ns * 1.0
    END AS rate,
    CASE
        WHEN result.value IS NOT NULL THEN result.unit
        WHEN result.figure = 'operations' THEN 'op/s'
        WHEN result.figure = 'bytes' THEN 'B/s'
        WHEN result.figure = 'time' THEN 'ns'
    END AS rate_unit,
    CASE WHEN result.value IS NOT NULL THEN result.less_is_better ELSE result.figure = 'time' END AS less_is_better,
    result.duration_ns AS duration_ns,
    result.operations AS operations,
    result.bytes AS bytes,
    result.errors AS errors,
    result.operations * 1e9 / NULLIF(result.duration_ns, 0) AS operations_per_second,
    result.bytes * 1e9 / NULLIF(result.duration_ns, 0) AS bytes_per_second,
    (result.cpu_user_ns + result.cpu_system_ns) * 1.0 / NULLIF(result.operations, 0) AS cpu_per_operation_ns,
    result.cpu_machine_ns * 1.0 / NULLIF(result.operations, 0) AS cpu_machine_per_operation_ns,
    result.device_written_bytes AS device_written_bytes,
    result.device_written_bytes * 1.0 / NULLIF(result.operations, 0) AS device_bytes_per_operation,
    measurement.space_left_bytes AS space_left_bytes
FROM run
LEFT JOIN measurement ON measurement.run = run.id
LEFT JOIN result ON result.run = run.id;

CREATE VIEW v_latency AS
SELECT
    run.trial AS trial,
    run.id AS run,
    run.round AS round,
    run.arm AS arm,
    run.workload AS workload,
    run.threads AS threads,
    result.name AS phase,
    histogram.kind AS kind,
    histogram.operations AS operations,
    histogram.p50_ns AS p50_ns,
    histogram.p90_ns AS p90_ns,
    histogram.p99_ns AS p99_ns,
    histogram.p999_ns AS p999_ns,
    histogram.p9999_ns AS p9999_ns,
    histogram.max_ns AS max_ns
FROM histogram
JOIN result ON result.run = histogram.run AND result.position = histogram.position
JOIN run ON run.id = histogram.run;

CREATE VIEW v_stage AS
SELECT
    run.trial AS trial,
    run.id AS run,
    run.round AS round,
    run.arm AS arm,
    run.workload AS workload,
    run.threads AS threads,
    stage.position AS position,
    stage.stage AS stage,
    stage.duration_ns AS duration_ns
FROM stage JOIN run ON run.id = stage.run;
