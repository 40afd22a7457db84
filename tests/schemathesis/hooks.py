"""What schemathesis can't make from a schema alone: cursors, which are only those that an answer gave."""

import schemathesis
from hypothesis import strategies as st


def cursor(at_ms: int, number: int) -> str:
    # As dataplane/src/api/query.rs writes them; this id is a place in every list.
    return f"{at_ms}.PhotoCopy:{number}".encode().hex()


schemathesis.openapi.format(
    "docket-cursor",
    st.builds(cursor, st.integers(0, 4_000_000_000_000), st.integers(0, 99_999_999)),
)
