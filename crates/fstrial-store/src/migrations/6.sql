-- Schema 6: how far the filesystem's journal or log went in the measured time. Until it is full for the first time, nothing
-- makes room in it, and a figure says nothing of what that costs.

-- Bytes of it, and bytes written to it from the mount to the measured time and in it; NULL where they are not counted.
ALTER TABLE result ADD COLUMN log_bytes INTEGER CHECK (log_bytes >= 0);
ALTER TABLE result ADD COLUMN log_before_bytes INTEGER CHECK (log_before_bytes >= 0);
ALTER TABLE result ADD COLUMN log_written_bytes INTEGER CHECK (log_written_bytes >= 0);
-- Commits of the filesystem in the measured time.
ALTER TABLE result ADD COLUMN commits INTEGER CHECK (commits >= 0);

DROP VIEW v_run;
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
    result.cpu_machine_ns * 1.0 / NULLIF(result.operations, 0) AS cpu_machine_per_operation_ns,
    result.device_written_bytes AS device_written_bytes,
    result.device_written_bytes * 1.0 / NULLIF(result.operations, 0) AS device_bytes_per_operation,
    result.log_bytes AS log_bytes,
    result.log_written_bytes * 1.0 / NULLIF(result.log_bytes, 0) AS log_laps,
    result.log_before_bytes * 1.0 / NULLIF(result.log_bytes, 0) AS log_laps_before,
    result.commits AS commits,
    measurement.space_left_bytes AS space_left_bytes,
    CASE WHEN json_valid(environment.json) THEN environment.json ->> '$.place' END AS at_place,
    CASE WHEN json_valid(environment.json) THEN environment.json ->> '$.host' END AS host,
    CASE WHEN json_valid(environment.json) THEN environment.json ->> '$.kernel' END AS kernel
FROM run
LEFT JOIN environment ON environment.id = run.environment
LEFT JOIN measurement ON measurement.run = run.id
LEFT JOIN result ON result.run = run.id;
