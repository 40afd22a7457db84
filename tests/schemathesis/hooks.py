"""What schemathesis can't make from a schema alone: cursors, which are only those that an answer gave; days that exist; and
amounts in whole cents, which the document says in words because validators divide in binary. And what OpenAPI can't say: that
`from` must not be after `to`, which tests/docket/api/query_strings.rs tests."""

from datetime import date, datetime, time, timedelta, timezone

import schemathesis
from hypothesis import strategies as st


def cursor(at_ms: int, number: int) -> str:
    # As dataplane/src/http/paging.rs writes them; this id is a place in every list.
    return f"{at_ms}.PhotoCopy:{number}".encode().hex()


schemathesis.openapi.format(
    "docket-cursor",
    st.builds(cursor, st.integers(0, 4_000_000_000_000), st.integers(0, 99_999_999)),
)

offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
schemathesis.openapi.format(
    "date-or-time",
    st.one_of(
        st.dates().map(lambda day: day.isoformat()),
        st.datetimes(timezones=offsets).map(lambda time: time.isoformat()),
    ),
)


def in_cents(node):
    if isinstance(node, dict):
        if "At most 2 decimals." in str(node.get("description")) and "number" in node.get("type", ()):
            node["multipleOf"] = 0.01
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            in_cents(one)


@schemathesis.hook
def before_load_schema(context, raw_schema):
    in_cents(raw_schema["components"]["schemas"])


def moment(text):
    """When a date begins, or the moment of a time; None for anything else."""
    try:
        if len(text) == 10:
            return datetime.combine(date.fromisoformat(text), time.min, timezone.utc)
        parsed = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return parsed if parsed.tzinfo else None


@schemathesis.hook
def filter_case(context, case):
    for fields in (case.query, case.body):
        if isinstance(fields, dict):
            first, last = moment(fields.get("from")), moment(fields.get("to"))
            if first and last and first > last:
                return False
    return True
