"""What the programs here share: a client of the server, and the model of a database, which is no matter of
the SDK: one signed request stores it, as `orrery model apply` does.
"""

import base64
import hashlib
import hmac
import json
import os
import urllib.parse
import urllib.request
from email.utils import formatdate

from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError, CosmosResourceNotFoundError

ENDPOINT = os.environ.get("ORRERY_ENDPOINT", "http://localhost:8081/").rstrip("/")
# The key that every emulator is known by; a server that listens on this machine only takes it.
KEY = os.environ.get(
    "ORRERY_KEY",
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==",
)


def fresh_database(name, containers):
    """A database with these containers (name and path of the partition key), made anew."""
    client = CosmosClient(ENDPOINT, KEY)
    try:
        client.delete_database(name)
    except CosmosResourceNotFoundError:
        pass
    database = client.create_database(name)
    return [database.create_container(id, PartitionKey(path)) for id, path in containers]


def store_model(database, model):
    """PUT /dbs/{database}/_model, signed."""
    link, date = f"dbs/{database}", formatdate(usegmt=True)
    text = f"put\n_model\n{link}\n{date.lower()}\n\n".encode()
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), text, hashlib.sha256).digest()).decode()
    authorization = urllib.parse.quote(f"type=master&ver=1.0&sig={signature}", safe="")
    request = urllib.request.Request(
        f"{ENDPOINT}/{link}/_model",
        data=json.dumps(model).encode(),
        method="PUT",
        headers={"authorization": authorization, "x-ms-date": date, "content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def refused(operation):
    """The status of an operation that must be refused, and what the server says."""
    try:
        operation()
    except CosmosHttpResponseError as error:
        return error.status_code, error.message
    raise AssertionError("it was not refused")


def expand(relations):
    """For `raw_request_hook`: sends the header that puts relations into the answer."""
    return lambda request: request.http_request.headers.update({"x-model-expand": relations})


def yes(value):
    """As JSON writes it."""
    return "true" if value else "false"


def all_rows(container, query, **options):
    return list(container.query_items(query, enable_cross_partition_query=True, **options))
