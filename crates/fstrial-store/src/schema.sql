-- Schema 1. Released schemas are never edited: a change is the next file.
-- Times are RFC 3339 in UTC. Names end in their unit. JSON is compact.

CREATE TABLE trial (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    toml TEXT NOT NULL,             -- the whole trial as a file that repeats it
    seed TEXT NOT NULL              -- decimal: up to 2^64 - 1 does not fit an SQLite integer
) STRICT;

CREATE TABLE tag (
    trial INTEGER NOT NULL REFERENCES trial (id),
    tag TEXT NOT NULL CHECK (tag <> ''),
    PRIMARY KEY (trial, tag)
) STRICT, WITHOUT ROWID;

-- One stretch of work on a trial by one process: the first, and one for each time it was resumed.
CREATE TABLE session (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    trial INTEGER NOT NULL REFERENCES trial (id),
    status TEXT NOT NULL,           -- of the trial, as this session left it
    started_at TEXT NOT NULL,
    ended_at TEXT,                  -- NULL: running, or killed
    program_version TEXT NOT NULL,
    command_line TEXT NOT NULL,
    environment TEXT NOT NULL,      -- JSON
    -- From the environment, as it says; NULL if it does not say.
    host TEXT,
    kernel TEXT,
    device TEXT,
    warnings TEXT,                  -- what only the session could warn of, as a JSON list of lines; NULL if nothing
    CHECK ((status = 'running') = (ended_at IS NULL))
) STRICT;
CREATE INDEX session_of_trial ON session (trial);

-- What machines were. Thousands of runs share a handful of them.
CREATE TABLE environment (
    id INTEGER PRIMARY KEY,
    json TEXT NOT NULL UNIQUE
) STRICT;

-- What arms really were. Thousands of runs share a handful of them.
CREATE TABLE facts (
    id INTEGER PRIMARY KEY,
    json TEXT NOT NULL UNIQUE
) STRICT;

-- Lists of commands that made an arm, as JSON. Thousands of runs share a handful of them.
CREATE TABLE commands (
    id INTEGER PRIMARY KEY,
    json TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE arm (
    trial INTEGER NOT NULL REFERENCES trial (id),
    position INTEGER NOT NULL,      -- in the trial file, from 0
    name TEXT NOT NULL,
    configuration TEXT NOT NULL,    -- everything but the name, in the short form
    facts INTEGER REFERENCES facts (id),
    PRIMARY KEY (trial, position),
    UNIQUE (trial, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX arm_of_facts ON arm (facts);

CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    trial INTEGER NOT NULL REFERENCES trial (id),
    session INTEGER NOT NULL REFERENCES session (id),
    round INTEGER NOT NULL CHECK (round >= 0),
    slot INTEGER NOT NULL CHECK (slot >= 0),        -- place in the round's drawn order
    arm TEXT NOT NULL,
    workload TEXT NOT NULL,
    threads INTEGER NOT NULL CHECK (threads > 0),
    started_at TEXT NOT NULL,
    ended_at TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('measured', 'failed')),
    failure TEXT,                   -- JSON
    job TEXT NOT NULL,              -- JSON
    environment INTEGER NOT NULL REFERENCES environment (id),   -- where it was made
    UNIQUE (trial, round, arm, workload, threads),
    FOREIGN KEY (trial, arm) REFERENCES arm (trial, name),
    CHECK ((status = 'failed') = (failure IS NOT NULL))
) STRICT;
CREATE INDEX run_in_order ON run (trial, round, slot);
CREATE INDEX failed_run ON run (trial) WHERE status = 'failed';
-- What refers to a row that is to be removed is found by these.
CREATE INDEX run_of_session ON run (session);
CREATE INDEX run_of_environment ON run (environment);

-- Counts of the runs of a trial, kept with each run: a list of trials must not read their runs.
CREATE TABLE tally (
    trial INTEGER PRIMARY KEY REFERENCES trial (id),
    rounds INTEGER NOT NULL CHECK (rounds >= 0),            -- that have at least one run
    runs INTEGER NOT NULL CHECK (runs >= 0),
    failed_runs INTEGER NOT NULL CHECK (failed_runs >= 0)   -- without those that found that an arm cannot do it
) STRICT;

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

-- One row for each run that was measured.
CREATE TABLE measurement (
    run INTEGER PRIMARY KEY REFERENCES run (id),
    space_left_bytes INTEGER NOT NULL CHECK (space_left_bytes >= 0),
    facts INTEGER NOT NULL REFERENCES facts (id),
    commands INTEGER NOT NULL REFERENCES commands (id),
    output TEXT                     -- what a program printed, raw
) STRICT;
CREATE INDEX measurement_of_facts ON measurement (facts);
CREATE INDEX measurement_of_commands ON measurement (commands);

-- A result for each measured phase; one may be a single number.
CREATE TABLE result (
    run INTEGER NOT NULL REFERENCES measurement (run),
    position INTEGER NOT NULL CHECK (position >= 0),
    name TEXT NOT NULL,             -- of the phase, or the group in it; empty if it is the only one
    -- One number that a program printed, or that was looked for.
    value REAL,
    unit TEXT,
    less_is_better INTEGER CHECK (less_is_better IN (0, 1)),
    -- What a load yields.
    figure TEXT,                    -- what its throughput counts
    threads INTEGER CHECK (threads >= 0),
    duration_ns INTEGER CHECK (duration_ns >= 0),
    operations INTEGER CHECK (operations >= 0),
    bytes INTEGER CHECK (bytes >= 0),
    errors INTEGER CHECK (errors >= 0),
    first_error TEXT,
    cpu_user_ns INTEGER CHECK (cpu_user_ns >= 0),
    cpu_system_ns INTEGER CHECK (cpu_system_ns >= 0),
    clock TEXT,
    series_step_ns INTEGER CHECK (series_step_ns >= 0),
    series TEXT,                    -- JSON list of operations in each window
    tails_step_ns INTEGER CHECK (tails_step_ns >= 0),
    tails TEXT,                     -- JSON list of [p50, p99] in ns in each window
    windows TEXT,
    steady_windows TEXT,
    PRIMARY KEY (run, position),
    UNIQUE (run, name),
    CHECK ((value IS NULL) = (unit IS NULL) AND (value IS NULL) = (less_is_better IS NULL)),
    CHECK ((value IS NULL) = (operations IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- What the kernel counted with a result: a row for each counter, so that another one is no other schema.
CREATE TABLE counter (
    run INTEGER NOT NULL,
    position INTEGER NOT NULL,      -- of the result
    name TEXT NOT NULL,
    value INTEGER NOT NULL CHECK (value >= 0),
    PRIMARY KEY (run, position, name),
    FOREIGN KEY (run, position) REFERENCES result (run, position)
) STRICT, WITHOUT ROWID;

-- Its quantiles are NULL where there is no latency, or it does not decode.
CREATE TABLE histogram (
    run INTEGER NOT NULL,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    latencies_ns BLOB NOT NULL,     -- HdrHistogram V2, deflate off
    operations INTEGER CHECK (operations >= 0),
    p50_ns INTEGER CHECK (p50_ns >= 0),
    p90_ns INTEGER CHECK (p90_ns >= 0),
    p99_ns INTEGER CHECK (p99_ns >= 0),
    p999_ns INTEGER CHECK (p999_ns >= 0),
    p9999_ns INTEGER CHECK (p9999_ns >= 0),
    max_ns INTEGER CHECK (max_ns >= 0),
    PRIMARY KEY (run, position, kind),
    FOREIGN KEY (run, position) REFERENCES result (run, position)
) STRICT;

CREATE TABLE stage (
    run INTEGER NOT NULL REFERENCES measurement (run),
    position INTEGER NOT NULL,
    stage TEXT NOT NULL,
    duration_ns INTEGER NOT NULL CHECK (duration_ns >= 0),
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;

-- Views are the interface for other programs (docs/store-schema.md), in the words that SQLite and DuckDB share.

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
        WHEN result.figure = 'bytes' THEN 'bytes/s'
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
    (SELECT value FROM counter WHERE counter.run = result.run AND counter.position = result.position AND name = 'cpu-machine') * 1.0
        / NULLIF(result.operations, 0) AS cpu_machine_per_operation_ns,
    (SELECT value FROM counter WHERE counter.run = result.run AND counter.position = result.position AND name = 'device-read') AS device_read_bytes,
    (SELECT value FROM counter WHERE counter.run = result.run AND counter.position = result.position AND name = 'device-written') AS device_written_bytes,
    (SELECT value FROM counter WHERE counter.run = result.run AND counter.position = result.position AND name = 'device-written') * 1.0
        / NULLIF(result.operations, 0) AS device_bytes_per_operation,
    (SELECT value FROM counter WHERE counter.run = result.run AND counter.position = result.position AND name = 'log-size') AS log_bytes,
    (SELECT value FROM counter WHERE counter.run = result.run AND counter.position = result.position AND name = 'log-written') * 1.0
        / NULLIF((SELECT value FROM counter WHERE counter.run = result.run AND counter.position = result.position AND name = 'log-size'), 0)
        AS log_laps,
    (SELECT value FROM counter WHERE counter.run = result.run AND counter.position = result.position AND name = 'log-before') * 1.0
        / NULLIF((SELECT value FROM counter WHERE counter.run = result.run AND counter.position = result.position AND name = 'log-size'), 0)
        AS log_laps_before,
    (SELECT value FROM counter WHERE counter.run = result.run AND counter.position = result.position AND name = 'commits') AS commits,
    measurement.space_left_bytes AS space_left_bytes,
    CASE WHEN json_valid(environment.json) THEN environment.json ->> '$.place' END AS at_place,
    CASE WHEN json_valid(environment.json) THEN environment.json ->> '$.host' END AS host,
    CASE WHEN json_valid(environment.json) THEN environment.json ->> '$.kernel' END AS kernel
FROM run
LEFT JOIN environment ON environment.id = run.environment
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
