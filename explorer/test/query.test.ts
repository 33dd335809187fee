import { describe, expect, it } from "vitest";
// The project's own list, as text.
import compat from "../../COMPAT.md?raw";
import { FUNCTIONS } from "../src/editor/functions";
import { complete } from "../src/editor/query-language";
import { type PlanNode, addPlans, counted, readPlan, spelled } from "../src/protocol/plan";
import { readQueryMetrics } from "../src/protocol/query-metrics";
import { ANSWERS_MAX, fillPage } from "../src/state/paging";
import { readParameters, readPartitionKey } from "../src/state/query-run";
import { SeenPaths } from "../src/state/seen-paths";
import { placePlan } from "../src/text/plan-layout";
import { shortNumber, ticks } from "../src/text/scale";
import { countQuery, filterQuery, isSortable } from "../src/text/filter-query";
import { nextSort, sortRows } from "../src/text/sort-rows";
import { containerDefinition } from "../src/views/new-container";

describe("a page", () => {
  const answers = (pages: readonly (readonly number[])[]) => {
    const asked: [string | null, number][] = [];
    const ask = async (token: string | null, room: number) => {
      asked.push([token, room]);
      const at = Number(token ?? 0);
      return { rows: pages[at] ?? [], continuation: at + 1 < pages.length ? String(at + 1) : null };
    };
    return { asked, ask };
  };

  it("is filled from as many answers as it takes, and no further", async () => {
    const { asked, ask } = answers([[1], [], [2, 3], [4]]);
    const page = await fillPage(3, null, ask);
    expect(page.flatMap(({ rows }) => rows)).toEqual([1, 2, 3]);
    expect(asked).toEqual([[null, 3], ["1", 2], ["2", 2]]);
    expect(page.at(-1)!.continuation).toBe("3");
  });

  it("ends with what there is, and is not waited for without end", async () => {
    expect((await fillPage(9, "3", answers([[1], [], [2, 3], [4]]).ask)).flatMap(({ rows }) => rows)).toEqual([4]);
    const { asked, ask } = answers(Array.from({ length: 99 }, () => []));
    await fillPage(9, null, ask);
    expect(asked).toHaveLength(ANSWERS_MAX);
  });
});

describe("completion", () => {
  const seen = new SeenPaths();
  seen.add([{ id: "1", address: { city: "x", lines: [{ text: "a" }] }, "odd name": 1 }, { price: 1.5, tags: null }]);
  const labels = (text: string) => complete(text, text.length, seen, ["tax"])?.options.map(({ label }) => label);

  it("knows the functions that the server has", () => {
    const list = compat.slice(compat.indexOf("<!-- functions: begin"), compat.indexOf("<!-- functions: end"));
    for (const [topic, names] of Object.entries(FUNCTIONS)) expect(list).toContain(`| ${topic} | ${names.join(", ")} |`);
    const rows = list.split("\n").filter((line) => line.startsWith("| ")).length;
    expect(Object.keys(FUNCTIONS)).toHaveLength(rows - 1);
  });

  it("offers paths that were seen, after any alias", () => {
    expect(labels("SELECT c.")).toEqual(["id", "address", "price", "tags"]);
    expect(labels("SELECT c.address.")).toEqual(["city", "lines"]);
    expect(labels("SELECT c.address.lines[0].te")).toEqual(["text"]);
    expect(labels("SELECT c.nothing.")).toEqual([]);
  });

  it("offers keywords and functions elsewhere, and functions of the container after udf", () => {
    expect(labels("SEL")).toContain("SELECT");
    expect(labels("SELECT ST_")).toContain("ST_DISTANCE");
    expect(labels("SELECT udf.")).toEqual(["tax"]);
    expect(labels("SELECT ")).toBeUndefined();
  });
});

describe("a plan", () => {
  const header = encodeURIComponent(JSON.stringify({
    node: "Top 10", rows: 10,
    inputs: [{
      node: "Filter", estimatedRows: 50, rows: 40,
      inputs: [{ node: "Intersect", estimatedRows: 60, inputs: [
        { node: 'IndexSeek /name = "a very long value that does not fit into one line of the box at all, nor two"', estimatedRows: 100, indexEntries: 100 },
        { node: "IndexRange /price > 5", estimatedRows: 900, indexEntries: 950, itemsLoaded: 3 },
      ] }],
    }],
  }));
  const plan = readPlan(header)!;

  it("is read from its header", () => {
    expect(plan.kind).toBe("Top");
    expect(plan.detail).toBe("10");
    const access = plan.inputs[0]!.inputs[0]!.inputs[1] as PlanNode;
    expect(access).toMatchObject({ kind: "IndexRange", detail: "/price > 5", estimatedRows: 900 });
    expect(access.actual).toEqual([{ name: "indexEntries", count: 950 }, { name: "itemsLoaded", count: 3 }]);
    expect(spelled("itemsLoaded")).toBe("items loaded");
    expect([counted(1, "items loaded"), counted(1, "entries read"), counted(2000, "rows")]).toEqual(["1 item loaded", "1 entry read", "2,000 rows"]);
  });

  it.each([null, "", "no json", "%7B%5D", "%5B%5D"])("is absent when the header is %j", (text) => {
    expect(readPlan(text)).toBeNull();
  });

  it("of several answers is one, if they went the same way", () => {
    const scan = (count: number): PlanNode => ({ kind: "Scan", detail: "", estimatedRows: null, actual: [{ name: "rows", count }], inputs: [] });
    const over = (input: PlanNode, count: number): PlanNode => ({ kind: "Filter", detail: "x", estimatedRows: 2, actual: [{ name: "rows", count }], inputs: [input] });
    expect(addPlans([over(scan(3), 1), null, over(scan(4), 2)])).toEqual({ ...over(scan(7), 3), estimatedRows: 4 });
    expect(addPlans([scan(3), over(scan(4), 2)])).toEqual(over(scan(4), 2));
    expect(addPlans([null])).toBeNull();
  });

  it("is drawn without boxes that overlap, parents over their inputs", () => {
    const { nodes, edges, width, height } = placePlan(plan);
    expect(nodes).toHaveLength(5);
    expect(edges).toHaveLength(4);
    for (const [index, a] of nodes.entries()) {
      expect(a.x >= 0 && a.x + a.width <= width && a.y + a.height <= height).toBe(true);
      for (const b of nodes.slice(index + 1)) {
        const isApart = a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
        expect(isApart).toBe(true);
      }
    }
    const [left, right] = nodes.filter(({ node }) => node.inputs.length === 0);
    const parent = nodes.find(({ node }) => node.kind === "Intersect")!;
    expect(parent.x).toBe((left!.x + right!.x) / 2);
    expect(parent.y).toBeLessThan(left!.y);
    expect(left!.lines.every((line) => line.length <= 34)).toBe(true);
    const count = (kind: string) => nodes.find(({ node }) => node.kind === kind)!.count;
    expect([count("Top"), count("Filter"), count("Intersect")]).toEqual([
      { text: "10 rows", isOff: false }, { text: "40 rows of 50 expected", isOff: false }, null,
    ]);
    expect(edges.map(({ rows, isExpected }) => [rows, isExpected])).toContainEqual([40, false]);
    expect(edges.map(({ rows, isExpected }) => [rows, isExpected])).toContainEqual([60, true]);
  });
});

describe("what a person types", () => {
  it("as parameters is an object of names", () => {
    expect(readParameters('{"@a": 1, "b": [2]}')).toEqual([{ name: "@a", value: 1 }, { name: "@b", value: [2] }]);
    expect(readParameters("  ")).toEqual([]);
    expect(() => readParameters("[1]")).toThrow("Parameters are an object");
    expect(() => readParameters("x")).toThrow("not JSON");
  });

  it.each([
    ["", undefined], ["contoso", '["contoso"]'], ['"contoso"', '["contoso"]'], ["5", "[5]"], ["null", "[null]"],
    ['["a", 1]', '["a", 1]'], ['{"x"', '["{\\"x\\""]'],
  ])("as a partition key, %j, is %j", (text, expected) => {
    expect(readPartitionKey(text)).toBe(expected);
  });

  it.each([
    ["", "SELECT * FROM c"],
    ["c.a = 1", "SELECT * FROM c WHERE c.a = 1"],
    ["where c.a = 1", "SELECT * FROM c where c.a = 1"],
    ["ORDER BY c.a", "SELECT * FROM c ORDER BY c.a"],
    ["orders.a = 1", "SELECT * FROM c WHERE orders.a = 1"],
  ])("as a filter, %j, becomes %j", (filter, expected) => {
    expect(filterQuery(filter)).toBe(expected);
  });

  it("as a new container becomes its definition", () => {
    expect(containerDefinition("c", ["/a", " ", "/b"], ["/x, /y", ""], 60, null)).toEqual({
      id: "c",
      partitionKey: { paths: ["/a", "/b"], kind: "MultiHash", version: 2 },
      uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/x", "/y"] }] },
      defaultTtl: 60,
    });
    expect(() => containerDefinition("c", [""], [], null, null)).toThrow("needs a partition key");
    expect(() => containerDefinition("c", ["a"], [], null, null)).toThrow("begins with a slash: /a");
  });
});

describe("numbers", () => {
  it("of the metrics header have names and units", () => {
    expect(readQueryMetrics("totalExecutionTimeInMs=0.35;retrievedDocumentCount=7;odd=x;;")).toEqual([
      { name: "total", value: 0.35, unit: "ms" },
      { name: "items loaded", value: 7, unit: "" },
    ]);
    expect(readQueryMetrics(null)).toEqual([]);
  });

  it("on an axis are round and span the data", () => {
    expect(ticks(0, 95, 5)).toEqual([0, 20, 40, 60, 80, 100]);
    expect(ticks(-0.3, 0.1, 4)).toEqual([-0.3, -0.2, -0.1, 0, 0.1]);
    expect(ticks(0, 1, 5)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
    expect(ticks(3, 3, 5)).toEqual([3]);
  });

  it("are short", () => {
    expect([0, 0.125, 950, 1234, 12_300, 4_560_000, -2e9].map(shortNumber)).toEqual(["0", "0.125", "950", "1234", "12.3k", "4.56M", "-2G"]);
  });
});

it("a header orders what a filter finds, unless the filter orders by itself", () => {
  const sort = { column: 'a "b"', isDescending: true };
  expect(filterQuery("", sort)).toBe('SELECT * FROM c ORDER BY c["a \\"b\\""] DESC');
  expect(filterQuery("c.n > 1", { column: "n", isDescending: false })).toBe('SELECT * FROM c WHERE c.n > 1 ORDER BY c["n"]');
  expect(filterQuery("c.n > 1 ORDER BY c.n", sort)).toBe("SELECT * FROM c WHERE c.n > 1 ORDER BY c.n");
  expect([isSortable("c.n = 'order by x'"), isSortable("ORDER  BY c.n"), isSortable("OFFSET 1 LIMIT 2")]).toEqual([true, false, false]);
  expect(nextSort(nextSort(nextSort(null, "a"), "a"), "a")).toBeNull();
  expect(nextSort({ column: "a", isDescending: true }, "b")).toEqual({ column: "b", isDescending: false });
});

it("what a filter finds is counted without its order", () => {
  expect(countQuery("")).toBe("SELECT VALUE COUNT(1) FROM c");
  expect(countQuery("c.n > 1 ORDER BY c.n")).toBe("SELECT VALUE COUNT(1) FROM c WHERE c.n > 1");
  expect(countQuery("JOIN t IN c.tags")).toBeNull();
  expect(countQuery("OFFSET 1 LIMIT 2")).toBeNull();
});

it("rows are ordered by type and value, and equal ones stay", () => {
  const rows = [{ a: "x", n: 1 }, { a: 10, n: 2 }, { n: 3 }, { a: 9, n: 4 }, { a: null, n: 5 }, { a: true, n: 6 }, { a: 9, n: 7 }];
  expect(sortRows(rows, "a", false).map(({ n }) => n)).toEqual([3, 5, 6, 4, 7, 2, 1]);
  expect(sortRows(rows, "a", true).map(({ n }) => n)).toEqual([1, 2, 4, 7, 6, 5, 3]);
});
