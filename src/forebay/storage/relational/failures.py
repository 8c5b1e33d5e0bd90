"""What goes wrong in a database, in the platform's own terms."""

from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from forebay.core.errors import Conflict, InvalidRequest, StoreUnavailable

RETRY_AFTER_S = 2.0
REASON_LENGTH = 200


@contextmanager
def told_as_our_own(database: str) -> Generator[None]:
    """Raises Conflict, InvalidRequest or StoreUnavailable in place of what a driver raises.

    `database` is what it is called in messages. Of a driver's message only the first line is told: the others have
    values of the row in them, which may be secret.
    """
    try:
        yield
    except IntegrityError as error:
        raise Conflict(f"What is to be written does not go together with what is there: {_reason(error)}.") from None
    except (DataError, UnicodeEncodeError):
        raise InvalidRequest("A text has characters that the database cannot keep or look for.") from None
    except SQLAlchemyError as error:
        raise StoreUnavailable(
            f"The configuration's database {database} cannot be used now: {_reason(error)}. Nothing was changed unless "
            "the connection broke in the very moment of writing.",
            retry_after_s=RETRY_AFTER_S,
        ) from error


def _reason(error: SQLAlchemyError) -> str:
    said = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    first_line = (said.strip() or type(error).__name__).splitlines()[0]
    return first_line[:REASON_LENGTH].rstrip(". ")
