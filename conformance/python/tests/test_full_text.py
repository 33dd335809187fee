"""The order by BM25 of the hundred texts that the SDK's own tests of full-text search carry. Those compare sets,
because the service breaks ties by `_rid`; the ranks themselves are always the same."""

import uuid
from itertools import islice

import pytest
from azure.cosmos import PartitionKey, ThroughputProperties
from hybrid_search_data import get_full_text_items

# Numbers of texts by descending score for the phrase; a text of the same length in terms has the same score.
UNITED_STATES = [{61}, {49, 51}, {24, 54, 75}, {77}, {76}, {80}, {22}]
POLICY = {
    "defaultLanguage": "en-US",
    "fullTextPaths": [{"path": "/text", "language": "en-US"}],
}
INDEXES = {"includedPaths": [{"path": "/*"}], "fullTextIndexes": [{"path": "/text"}]}


@pytest.mark.parametrize("ranges", [1, 3])
def test_texts_are_ranked_as_the_service_ranks_them(database, ranges):
    container = database.create_container(
        str(uuid.uuid4()),
        PartitionKey("/pk"),
        full_text_policy=POLICY,
        indexing_policy=INDEXES,
        offer_throughput=ThroughputProperties(offer_throughput=ranges * 6_000) if ranges > 1 else None,
    )
    items = get_full_text_items()["items"]
    assert len(items) == 100
    for item in items:
        n = item["index"]
        container.create_item({"id": str(n), "pk": str(n % 7), "index": n, "text": item["text"]})
    matching = "FROM c WHERE FullTextContains(c.text, 'United States')"
    ranked = "ORDER BY RANK FullTextScore(c.text, 'United States')"
    rows = container.query_items(f"SELECT TOP 20 c.index {matching} {ranked}", enable_cross_partition_query=True)
    found = [row["index"] for row in rows]
    rest = iter(found)
    assert [set(islice(rest, len(equal))) for equal in UNITED_STATES] == UNITED_STATES, found
    assert list(rest) == []
