"""Fixtures for pytest: `orrery`, a server for the whole session, and `orrery_container`, a container for a test."""

from __future__ import annotations

import uuid
from typing import Any, Iterator

import pytest

import orrery as package


@pytest.fixture(scope="session")
def orrery() -> Iterator[package.Orrery]:
    """A server in memory for all tests of the session."""
    try:
        server = package.start()
    except package.OrreryError as error:
        pytest.fail(f"orrery: {error}", pytrace=False)
    with server:
        yield server


@pytest.fixture(scope="session")
def _orrery_client(orrery: package.Orrery) -> Any:
    cosmos = pytest.importorskip("azure.cosmos", reason="orrery_container needs the package azure-cosmos")
    return cosmos.CosmosClient(orrery.endpoint, orrery.key)


@pytest.fixture
def orrery_container(_orrery_client: Any) -> Iterator[Any]:
    """A container with the partition key /pk in a database of its own, deleted after the test."""
    from azure.cosmos import PartitionKey

    name = f"test-{uuid.uuid4()}"
    database = _orrery_client.create_database(name)
    try:
        yield database.create_container("items", PartitionKey("/pk"))
    finally:
        _orrery_client.delete_database(name)
