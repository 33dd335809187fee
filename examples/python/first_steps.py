"""First steps: connect, make a container, store and read items, query, write a batch, follow changes.

    pip install azure-cosmos
    python examples/python/first_steps.py
"""

import os

from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosResourceNotFoundError

ENDPOINT = os.environ.get("ORRERY_ENDPOINT", "http://localhost:8081/")
# The key that every emulator is known by; a server that listens on this machine only takes it.
KEY = os.environ.get(
    "ORRERY_KEY",
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==",
)

# What was known before 1610, with the distance from the Sun in astronomical units.
PLANETS = [("Mercury", 0.39, 0), ("Venus", 0.72, 0), ("Earth", 1.0, 1), ("Mars", 1.52, 0), ("Jupiter", 5.2, 0),
           ("Saturn", 9.58, 0)]


def planet(name, au, moons):
    return {"id": name.lower(), "star": "Sun", "kind": "planet", "name": name, "au": au, "moons": moons}


def moon(name, of):
    return {"id": name.lower(), "star": "Sun", "kind": "moon", "name": name, "planet": of}


def main():
    # Connect. What an earlier run has left is removed.
    client = CosmosClient(ENDPOINT, KEY)
    try:
        client.delete_database("first-steps")
    except CosmosResourceNotFoundError:
        pass

    # A container needs a partition key: items that share its value can change in one transaction.
    database = client.create_database("first-steps")
    bodies = database.create_container("bodies", PartitionKey("/star"))

    # Items are JSON; `id` is the only property they must have.
    for name, au, moons in PLANETS:
        bodies.create_item(planet(name, au, moons))
    print("stored:", ", ".join(name for name, _, _ in PLANETS))

    # The fastest way to an item is its id together with its partition key.
    earth = bodies.read_item("earth", partition_key="Sun")
    print(f"read: {earth['name']} has {earth['moons']} moon")

    # A query, with a parameter instead of pasted text.
    beyond = bodies.query_items(
        "SELECT b.name, b.au FROM b WHERE b.kind = 'planet' AND b.au > @au ORDER BY b.au",
        parameters=[{"name": "@au", "value": earth["au"]}],
        partition_key="Sun",
    )
    print("beyond Earth:", ", ".join(f"{row['name']} {row['au']:.2f}" for row in beyond))

    # The change feed tells every change since the beginning, and where to go on.
    changes = list(bodies.query_items_change_feed(start_time="Beginning"))
    position = bodies.client_connection.last_response_headers["etag"]
    print(f"change feed: {len(changes)} changes")

    # Galileo looks at Jupiter: four moons and their count are written together, or not at all.
    galilean = [moon(name, "jupiter") for name in ("Io", "Europa", "Ganymede", "Callisto")]
    bodies.execute_item_batch(
        [("create", (found,)) for found in galilean] + [("replace", ("jupiter", planet("Jupiter", 5.2, 4)))],
        partition_key="Sun",
    )
    print(f"batch: Jupiter has {bodies.read_item('jupiter', 'Sun')['moons']} moons")

    # Io is there already: the whole batch is refused, and nothing of it remains.
    try:
        bodies.execute_item_batch(
            [("create", (planet("Vulcan", 0.14, 0),)), ("create", (moon("Io", "jupiter"),))], partition_key="Sun"
        )
    except CosmosBatchOperationError as refusal:
        left = list(bodies.query_items("SELECT * FROM b WHERE b.id = 'vulcan'", partition_key="Sun"))
        print(f"batch refused with {refusal.status_code}: there is {'a' if left else 'no'} Vulcan")

    # What has changed since.
    changes = bodies.query_items_change_feed(continuation=position)
    print("change feed:", ", ".join(sorted(body["name"] for body in changes)))


if __name__ == "__main__":
    main()
