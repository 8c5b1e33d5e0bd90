"""Run by Alembic: the migrations go over the connection that the caller has opened, in its transaction."""

from alembic import context

options = context.config.attributes
context.configure(connection=options["connection"], version_table=options["version_table"], transactional_ddl=True)
context.run_migrations()
