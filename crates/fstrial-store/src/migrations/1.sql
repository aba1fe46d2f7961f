-- Schema 1. Released schemas are never edited: a change is the next file.
-- Times are RFC 3339 in UTC. Names end in their unit. JSON is compact.

CREATE TABLE trial (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    toml TEXT NOT NULL,             -- the whole trial as a file that repeats it
    seed TEXT NOT NULL,             -- decimal: up to 2^64 - 1 does not fit an SQLite integer
    planned_rounds INTEGER CHECK (planned_rounds > 0)
) STRICT;

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
    CHECK ((status = 'running') = (ended_at IS NULL))
) STRICT;
CREATE INDEX session_of_trial ON session (trial);

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

CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    trial INTEGER NOT NULL REFERENCES trial (id),
    session INTEGER NOT NULL REFERENCES session (id),
    round INTEGER NOT NULL CHECK (round >= 0),
    slot INTEGER NOT NULL CHECK (slot >= 0),        -- place in the round's drawn order
    attempt INTEGER NOT NULL CHECK (attempt >= 0),
    arm TEXT NOT NULL,
    workload TEXT NOT NULL,
    threads INTEGER NOT NULL CHECK (threads > 0),
    started_at TEXT NOT NULL,
    ended_at TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('measured', 'failed')),
    failure TEXT,                   -- JSON
    job TEXT NOT NULL,              -- JSON
    UNIQUE (trial, round, arm, workload, threads, attempt),
    FOREIGN KEY (trial, arm) REFERENCES arm (trial, name),
    CHECK ((status = 'failed') = (failure IS NOT NULL))
) STRICT;
CREATE INDEX run_in_order ON run (trial, round, slot, attempt);
CREATE INDEX failed_run ON run (trial) WHERE status = 'failed';

-- One row for each run that was measured.
CREATE TABLE measurement (
    run INTEGER PRIMARY KEY REFERENCES run (id),
    duration_ns INTEGER NOT NULL CHECK (duration_ns >= 0),
    operations INTEGER NOT NULL CHECK (operations >= 0),
    bytes INTEGER NOT NULL CHECK (bytes >= 0),
    errors INTEGER NOT NULL CHECK (errors >= 0),
    first_error TEXT,
    cpu_user_ns INTEGER NOT NULL CHECK (cpu_user_ns >= 0),
    cpu_system_ns INTEGER NOT NULL CHECK (cpu_system_ns >= 0),
    cpu_machine_ns INTEGER NOT NULL CHECK (cpu_machine_ns >= 0),
    space_left_bytes INTEGER NOT NULL CHECK (space_left_bytes >= 0),
    clock TEXT NOT NULL,
    series_step_ns INTEGER NOT NULL CHECK (series_step_ns >= 0),
    series TEXT NOT NULL,           -- JSON list of operations in each window
    windows TEXT NOT NULL,
    steady_windows TEXT NOT NULL,
    facts INTEGER NOT NULL REFERENCES facts (id),
    commands INTEGER NOT NULL REFERENCES commands (id)
) STRICT;

CREATE TABLE histogram (
    run INTEGER NOT NULL REFERENCES measurement (run),
    kind TEXT NOT NULL,
    latencies_ns BLOB NOT NULL,     -- HdrHistogram V2, deflate off
    PRIMARY KEY (run, kind)
) STRICT;

CREATE TABLE stage (
    run INTEGER NOT NULL REFERENCES measurement (run),
    position INTEGER NOT NULL,
    stage TEXT NOT NULL,
    duration_ns INTEGER NOT NULL CHECK (duration_ns >= 0),
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;
