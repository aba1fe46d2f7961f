-- Schema 7: what the kernel counted with a result is a row for each counter, so that another one is no other schema.

CREATE TABLE counter (
    run INTEGER NOT NULL,
    position INTEGER NOT NULL,      -- of the result
    name TEXT NOT NULL,
    value INTEGER NOT NULL CHECK (value >= 0),
    PRIMARY KEY (run, position, name),
    FOREIGN KEY (run, position) REFERENCES result (run, position)
) STRICT, WITHOUT ROWID;

INSERT INTO counter SELECT run, position, 'cpu-machine', cpu_machine_ns FROM result WHERE cpu_machine_ns IS NOT NULL;
INSERT INTO counter SELECT run, position, 'device-written', device_written_bytes FROM result WHERE device_written_bytes IS NOT NULL;
INSERT INTO counter SELECT run, position, 'log-size', log_bytes FROM result WHERE log_bytes IS NOT NULL;
INSERT INTO counter SELECT run, position, 'log-before', log_before_bytes FROM result WHERE log_before_bytes IS NOT NULL;
INSERT INTO counter SELECT run, position, 'log-written', log_written_bytes FROM result WHERE log_written_bytes IS NOT NULL;
INSERT INTO counter SELECT run, position, 'commits', commits FROM result WHERE commits IS NOT NULL;

DROP VIEW v_run;
ALTER TABLE result DROP COLUMN cpu_machine_ns;
ALTER TABLE result DROP COLUMN device_written_bytes;
ALTER TABLE result DROP COLUMN log_bytes;
ALTER TABLE result DROP COLUMN log_before_bytes;
ALTER TABLE result DROP COLUMN log_written_bytes;
ALTER TABLE result DROP COLUMN commits;

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
