"""Ordered queries that begin again with every page: nothing but the token of the page before is carried
over. The SDK takes a token for queries of one logical partition only, so the server keeps the order, and the
token must hold wherever that partition lies."""

import base64
import hashlib
import hmac
import os
import urllib.parse
import uuid
from email.utils import formatdate

import pytest
import requests
from azure.cosmos import PartitionKey, ThroughputProperties

ENDPOINT = os.environ["ORRERY_ENDPOINT"]
KEY = os.environ["ORRERY_KEY"]
COUNT = 30
# One value of every type in ascending order; the first stands for a missing property. Two arrays or objects
# would be ordered by a hash.
MISSING = object()
VALUES = [MISSING, None, False, True, -1.5, 7, 9007199254740991, "", "a", "it's \"so\"", "é", [1], {"a": 1}]


def rank_of_v(n):
    return n * 5 % len(VALUES)


def itself(n):
    return n


def few(n):
    return n % 4


def rank_of_s(n):
    return n % 5


def equally(_):
    return 0


def descending(key):
    return lambda n: -key(n)


# Queries of the numbers of items, the keys of their order, and which rows of it they want.
QUERIES = [
    ("SELECT VALUE c.n FROM c ORDER BY c.n", [itself], slice(None)),
    ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", [descending(itself)], slice(None)),
    ("SELECT VALUE c.n FROM c ORDER BY c.v", [rank_of_v], slice(None)),
    ("SELECT VALUE c.n FROM c ORDER BY c.v DESC", [descending(rank_of_v)], slice(None)),
    ("SELECT VALUE c.n FROM c ORDER BY c.same", [equally], slice(None)),
    ("SELECT VALUE c.n FROM c ORDER BY c.same DESC", [equally], slice(None)),
    ("SELECT VALUE c.n FROM c ORDER BY c.few, c.s DESC", [few, descending(rank_of_s)], slice(None)),
    ("SELECT VALUE c.n FROM c ORDER BY c.few DESC, c.s", [descending(few), rank_of_s], slice(None)),
    ("SELECT TOP 17 VALUE c.n FROM c ORDER BY c.n DESC", [descending(itself)], slice(0, 17)),
    ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 5 LIMIT 20", [itself], slice(5, 25)),
    ("SELECT VALUE c.n FROM c ORDER BY c.v DESC OFFSET 3 LIMIT 9", [descending(rank_of_v)], slice(3, 12)),
    ("SELECT DISTINCT VALUE c.few FROM c ORDER BY c.few", [itself], slice(0, 4)),
]


def resumable(database, ranges):
    """A container whose items lie in one logical partition, among others."""
    container = database.create_container(
        str(uuid.uuid4()),
        PartitionKey("/pk"),
        indexing_policy={
            "includedPaths": [{"path": "/*"}],
            "compositeIndexes": [
                [{"path": "/few", "order": "ascending"}, {"path": "/s", "order": "descending"}]
            ],
        },
        offer_throughput=ThroughputProperties(offer_throughput=ranges * 6_000) if ranges > 1 else None,
    )
    for n in range(COUNT):
        item = {"id": str(n), "pk": "one", "n": n, "few": few(n), "same": 1, "s": f"s{rank_of_s(n)}"}
        if VALUES[rank_of_v(n)] is not MISSING:
            item["v"] = VALUES[rank_of_v(n)]
        container.create_item(item)
        container.create_item({"id": str(n), "pk": f"other-{n}", "n": n})
    assert len(list(container.read_feed_ranges())) == ranges
    return container


def split(database, container):
    """Splits the range of a container that holds most; the request is ours, and the SDK has none for it."""
    link = f"dbs/{database.id}/colls/{container.id}"
    date = formatdate(usegmt=True)
    signed = f"post\ncolls\n{link}\n{date.lower()}\n\n".encode()
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), signed, hashlib.sha256).digest()).decode()
    token = urllib.parse.quote(f"type=master&ver=1.0&sig={signature}", safe="")
    answer = requests.post(
        f"{ENDPOINT.rstrip('/')}/{link}/operations/split",
        headers={"authorization": token, "x-ms-date": date, "x-ms-version": "2020-07-15"},
        verify=False,
        timeout=60,
    )
    assert answer.status_code == 200, answer.text


def resumed(container, query, size, between=lambda pages: None):
    """All rows of a query that begins again with each page; `between` is called after each."""
    found, token = [], None
    for pages in range(1, 201):
        pager = container.query_items(query, partition_key="one", max_item_count=size).by_page(token)
        page = list(next(pager))
        assert len(page) <= size
        found.extend(page)
        token = pager.continuation_token
        if not token:
            return found
        between(pages)
    raise AssertionError(f"{query} has no end")


def check(found, query):
    """Compares rows by their keys, because rows with equal keys have no order; and no row comes twice."""
    text, keys, wanted = query
    ranks = [[key(n) for key in keys] for n in range(COUNT)]
    expected = sorted(ranks)[wanted]
    assert [ranks[n] for n in found] == expected, text
    assert len(set(found)) == len(found), text


@pytest.mark.parametrize("ranges", [1, 3])
def test_every_ordered_query_goes_on_from_every_page(database, ranges):
    container = resumable(database, ranges)
    for query in QUERIES:
        for size in [1, 2, 3, 7]:
            check(resumed(container, query[0], size), query)


@pytest.mark.parametrize("ranges", [1, 3])
@pytest.mark.parametrize("query", QUERIES, ids=[query[0] for query in QUERIES])
def test_an_ordered_query_goes_on_across_splits(database, ranges, query):
    container = resumable(database, ranges)

    def between(pages):
        if pages in (1, 3):
            split(database, container)

    check(resumed(container, query[0], 2, between), query)
    assert len(list(container.read_feed_ranges(force_refresh=True))) > ranges
