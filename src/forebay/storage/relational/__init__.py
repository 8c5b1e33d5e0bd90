"""The configuration in a relational database: SQLite by default, Postgres where several machines share it."""
