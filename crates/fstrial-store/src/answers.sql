-- Made by every fstrial that writes: a store from before has no such tables.
-- What an ended trial says about its contrasts, as the fstrial of that version computed it from its runs: thousands of trials are
-- pooled without reading their runs. It goes when the trial is resumed, and can be computed again at any time.
CREATE TABLE IF NOT EXISTS answers (
    trial INTEGER PRIMARY KEY REFERENCES trial (id),
    program_version TEXT NOT NULL,
    json TEXT NOT NULL
) STRICT;
-- What the arms of a trial kept in power cuts, if it has a receipt.
CREATE TABLE IF NOT EXISTS receipt (
    trial INTEGER PRIMARY KEY REFERENCES trial (id),
    json TEXT NOT NULL
) STRICT;
-- The observed runs that explain the verdicts of a trial, if it was explained. The latest.
CREATE TABLE IF NOT EXISTS evidence (
    trial INTEGER PRIMARY KEY REFERENCES trial (id),
    json TEXT NOT NULL
) STRICT;
