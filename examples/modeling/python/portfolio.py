"""Referring instead of copying what changes often: a portfolio names its stocks, and a query reads the live price
through the reference in one round trip.

    pip install azure-cosmos
    python examples/modeling/python/portfolio.py
"""

from server import all_rows, expand, fresh_database, refused, store_model, yes

MODEL = {
    "version": 1,
    "types": {"person": {"container": "people"}, "stock": {"container": "stocks"}},
    "relations": [
        {
            "name": "stock",
            "from": "person",
            "path": "/holdings/*/stockId",
            "to": "stock",
            "coerce": "string",
            "onMissing": "reject",
            "onDelete": "restrict",
        }
    ],
}
VALUE = "SELECT VALUE h.numberHeld * h.stock.high FROM p JOIN h IN p.holdings WHERE p.id = '1'"


def main():
    people, stocks = fresh_database("portfolio", [("people", "/id"), ("stocks", "/id")])
    store_model("portfolio", MODEL)
    for n in range(1, 21):
        stocks.create_item({"id": str(n), "symbol": f"S{n}", "high": 10 * n})
    # The reference is a number and ids are strings: "coerce" makes them meet.
    holdings = [{"numberHeld": 2, "stockId": n} for n in range(1, 21)]
    person = people.create_item({"id": "1", "firstName": "Thomas", "holdings": holdings})
    print("value:", sum(all_rows(people, VALUE)))

    # The price changes: one write, and no portfolio is touched.
    stocks.replace_item("1", {"id": "1", "symbol": "S1", "high": 1000})
    print("value at the new price:", sum(all_rows(people, VALUE)))
    print("portfolio unchanged:", yes(people.read_item("1", "1")["_etag"] == person["_etag"]))

    # An item with what it refers to, read whole and saved back: it is the same item.
    whole = people.read_item("1", "1", raw_request_hook=expand("stock(high)"))
    print("expanded:", whole["holdings"][0]["stock"]["high"])
    people.replace_item("1", whole)
    print("saved back without it:", yes("stock" not in people.read_item("1", "1")["holdings"][0]))

    person["holdings"].append({"numberHeld": 1, "stockId": 99})
    status, message = refused(lambda: people.replace_item("1", person))
    print(f"stock 99: {status}, names path and value: {yes('/holdings/*/stockId' in message and '99' in message)}")
    status, message = refused(lambda: stocks.delete_item("1", "1"))
    print(f"delete of a held stock: {status}")


if __name__ == "__main__":
    main()
