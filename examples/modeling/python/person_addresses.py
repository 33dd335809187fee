"""Embedding, with its bound as a fact that is checked: a person has at most ten addresses.

    pip install azure-cosmos
    python examples/modeling/python/person_addresses.py
"""

from server import fresh_database, refused, store_model, yes

MODEL = {
    "version": 1,
    "types": {
        "person": {
            "container": "people",
            "schema": {"required": ["firstName", "lastName"], "properties": {"addresses": {"maxItems": 10}}},
            "validation": {"level": "moderate", "action": "warn"},
        }
    },
}


def main():
    [people] = fresh_database("person-addresses", [("people", "/id")])
    store_model("person-addresses", MODEL)
    address = {"line": "100 Some Street", "city": "Seattle", "zip": 98012}
    person = {"id": "1", "firstName": "Thomas", "lastName": "Andersen", "addresses": [address] * 10}
    people.create_item(person)

    headers = {}
    person["addresses"].append(address)
    people.replace_item("1", person, response_hook=lambda h, _: headers.update(h))
    warning = headers["x-model-warnings"]
    print("warn: written with", len(people.read_item("1", "1")["addresses"]), "addresses")
    print("warning names the path:", yes("/addresses" in warning))

    MODEL["types"]["person"]["validation"] = {"level": "strict", "action": "error"}
    store_model("person-addresses", MODEL)
    person["addresses"].append(address)
    status, message = refused(lambda: people.replace_item("1", person))
    print(f"error: {status}, names the path: {yes('/addresses' in message)}")
    print("stored:", len(people.read_item("1", "1")["addresses"]), "addresses")


if __name__ == "__main__":
    main()
