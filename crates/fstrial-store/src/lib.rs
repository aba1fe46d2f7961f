//! The results of every run in one SQLite file: schema, migrations, queries.
