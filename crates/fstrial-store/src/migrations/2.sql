-- Schema 2: a run has a result for each measured phase, and a result may be one number.
-- What a load of one phase had in `measurement` becomes its only result, without a name.

CREATE TABLE result (
    run INTEGER NOT NULL REFERENCES measurement (run),
    position INTEGER NOT NULL CHECK (position >= 0),
    name TEXT NOT NULL,             -- of the phase, or the group in it; empty if it is the only one
    cpu_machine_ns INTEGER CHECK (cpu_machine_ns >= 0),
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

INSERT INTO result (run, position, name, cpu_machine_ns, figure, threads, duration_ns, operations, bytes, errors,
    first_error, cpu_user_ns, cpu_system_ns, clock, series_step_ns, series, tails_step_ns, tails, windows, steady_windows)
SELECT measurement.run, 0, '', cpu_machine_ns, 'operations', run.threads, duration_ns, operations, bytes, errors,
    first_error, cpu_user_ns, cpu_system_ns, clock, series_step_ns, series, 0, '[]', windows, steady_windows
FROM measurement JOIN run ON run.id = measurement.run;

CREATE TABLE histogram_of_result (
    run INTEGER NOT NULL,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    latencies_ns BLOB NOT NULL,     -- HdrHistogram V2, deflate off
    PRIMARY KEY (run, position, kind),
    FOREIGN KEY (run, position) REFERENCES result (run, position)
) STRICT;
INSERT INTO histogram_of_result SELECT run, 0, kind, latencies_ns FROM histogram;
DROP TABLE histogram;
ALTER TABLE histogram_of_result RENAME TO histogram;

ALTER TABLE measurement DROP COLUMN duration_ns;
ALTER TABLE measurement DROP COLUMN operations;
ALTER TABLE measurement DROP COLUMN bytes;
ALTER TABLE measurement DROP COLUMN errors;
ALTER TABLE measurement DROP COLUMN first_error;
ALTER TABLE measurement DROP COLUMN cpu_user_ns;
ALTER TABLE measurement DROP COLUMN cpu_system_ns;
ALTER TABLE measurement DROP COLUMN cpu_machine_ns;
ALTER TABLE measurement DROP COLUMN clock;
ALTER TABLE measurement DROP COLUMN series_step_ns;
ALTER TABLE measurement DROP COLUMN series;
ALTER TABLE measurement DROP COLUMN windows;
ALTER TABLE measurement DROP COLUMN steady_windows;
ALTER TABLE measurement ADD COLUMN output TEXT; -- what a program printed, raw
