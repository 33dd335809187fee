"""What tests share that sign in with a key."""

import os
import uuid

import pytest
from azure.cosmos import CosmosClient


@pytest.fixture(scope="module")
def database():
    endpoint, key = os.environ["ORRERY_ENDPOINT"], os.environ["ORRERY_KEY"]
    client = CosmosClient(endpoint, key, connection_verify=False, enable_endpoint_discovery=False)
    database = client.create_database(f"python-{uuid.uuid4()}")
    yield database
    client.delete_database(database.id)
