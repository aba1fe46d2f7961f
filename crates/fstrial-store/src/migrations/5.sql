-- Schema 5: the environment of every run, not only of a session: the arms of a round may run at different places. And
-- rates in bytes have the unit that they have everywhere else.

-- What machines were. Thousands of runs share a handful of them.
CREATE TABLE environment (
    id INTEGER PRIMARY KEY,
    json TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO environment (json) SELECT DISTINCT environment FROM session;

-- Where a run was made. Earlier runs were made where their session was.
ALTER TABLE run ADD COLUMN environment INTEGER REFERENCES environment (id);
UPDATE run SET environment = (
    SELECT environment.id FROM session JOIN environment ON environment.json = session.environment
    WHERE session.id = run.session
);
CREATE INDEX run_of_environment ON run (environment);

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
    measurement.space_left_bytes AS space_left_bytes,
    CASE WHEN json_valid(environment.json) THEN environment.json ->> '$.place' END AS at_place,
    CASE WHEN json_valid(environment.json) THEN environment.json ->> '$.host' END AS host,
    CASE WHEN json_valid(environment.json) THEN environment.json ->> '$.kernel' END AS kernel
FROM run
LEFT JOIN environment ON environment.id = run.environment
LEFT JOIN measurement ON measurement.run = run.id
LEFT JOIN result ON result.run = run.id;
