import { describe, expect, it } from "vitest";
import type { JsonObject } from "../src/protocol/json";
import { type Finding, type Report, costOf, documentOf, isUnsettled, modelFault, statesOf } from "../src/protocol/model";
import { Problem } from "../src/protocol/problem";
import { readChange } from "../src/state/change-watch";
import { Viewport } from "../src/state/viewport";
import { BOX_WIDTH, placeDiagram } from "../src/text/diagram-layout";
import { placeOf } from "../src/text/json-place";
import { diagramOf } from "../src/text/model-diagram";
import { changeOf, patched, withExcluded } from "../src/text/model-patch";
import { shortened } from "../src/views/diff-view";

const MODEL: JsonObject = {
  version: 1,
  types: { author: { container: "library" }, book: { container: "library", schema: { properties: { title: { type: "string" } } } } },
  relations: [{ name: "author", from: "book", path: "/authors/*/id", to: "author", copies: { name: "t.name" }, inverse: { name: "written", store: "/books" } }],
  aggregates: [{ on: "author", path: "/count", of: "written", value: "COUNT(1)" }],
};

function finding(parts: Partial<Finding>): Finding {
  return { rule: "M07", severity: "warning", type: "book", path: "", reason: "", counts: {}, samples: [], confidence: 1, patch: {}, ...parts };
}

const REPORT: Report = {
  window: { items: 90, versions: 0 },
  types: [
    { name: "author", container: "library", items: 30, paths: { "/id": "string", "/agent": "string" } },
    { name: "book", container: "library", items: 60, paths: { "/id": "string", "/title": "string" } },
    { name: "agent", container: "agents", items: 3, paths: { "/id": "string" } },
  ],
  links: [
    { from: "book", path: "/authors/*/id", to: "author", matchRate: 1, declared: true },
    { from: "author", path: "/agent", to: "agent", matchRate: 0.989, declared: false },
  ],
  findings: [finding({ type: "author", path: "/agent" }), finding({ type: "book", severity: "critical" })],
  tooLittleData: [],
};

describe("a patch", () => {
  it("adds what is new, changes what it names, and leaves both documents alone", () => {
    const before = JSON.stringify(MODEL);
    const patch: JsonObject = {
      types: { book: { schema: { required: ["title"] } }, agent: { container: "agents" } },
      relations: [{ from: "book", path: "/authors/*/id", copies: {} }, { name: "agent", from: "author", path: "/agent", to: "agent" }],
    };
    const after = patched(MODEL, patch);
    expect(after.types).toMatchObject({ book: { container: "library", schema: { required: ["title"], properties: {} } }, agent: { container: "agents" } });
    expect(after.relations).toHaveLength(2);
    expect((after.relations as JsonObject[])[0]).toMatchObject({ name: "author", copies: {} });
    expect((after.relations as JsonObject[])[0]!.copies).toEqual({});
    expect(JSON.stringify(MODEL)).toBe(before);
  });

  it("makes a model where there is none", () => {
    expect(patched(null, { types: { a: { container: "c" } } })).toEqual({ version: 1, types: { a: { container: "c" } } });
  });

  it("is about the model, an indexing policy, or nothing that can be changed", () => {
    expect(changeOf(finding({ patch: { relations: [] } }))).toEqual({ kind: "model" });
    const policy = { excludedPaths: [{ path: "/big/*" }] };
    expect(changeOf(finding({ patch: { containers: { c: { indexingPolicy: policy } } } }))).toEqual({ kind: "indexing", container: "c", policy });
    expect(changeOf(finding({ patch: { containers: { c: { partitionKey: {} } } } })).kind).toBe("none");
    const index = { partitionKey: {}, globalSecondaryIndexDefinition: { sourceCollectionId: "c", definition: "SELECT * FROM c" } };
    expect(changeOf(finding({ patch: { containers: { c_by_city: index } } }))).toMatchObject({ kind: "none", reason: expect.stringContaining("'c_by_city'") });
    expect(changeOf(finding({})).kind).toBe("none");
    const known = { excludedPaths: [{ path: "/_etag/?" }, { path: "/big/*" }] };
    expect(withExcluded(known, policy)).toEqual(known);
    expect(withExcluded({ excludedPaths: [{ path: "/_etag/?" }] }, policy)).toEqual(known);
  });
});

describe("a model", () => {
  it("is shown without what the server adds", () => {
    expect(documentOf({ ...MODEL, _etag: "x", _state: [], _ts: 1 })).toEqual(MODEL);
  });

  it("that is refused has a place and a reason", () => {
    const refused = new Problem(400, 0, "BadRequest", "The model is refused at '/relations/0/to': there is no type 'x'", "");
    expect(modelFault(refused)).toEqual({ path: "/relations/0/to", reason: "there is no type 'x'" });
    expect(modelFault(new Problem(400, 0, "BadRequest", "The body is empty.", ""))).toBeNull();
    expect(modelFault(new Error("x"))).toBeNull();
  });

  it.each([
    ["/relations/0/to", '"to": "x"'], ["/relations/1", '{'], ["/types/a/b", '"a/b"'], ["/types/q\"", '"q\\""'],
    ["/relations/0/missing/deep", "{"], ["/version", '"version": 1'], ["", "{"],
  ])("has %j at its place", (path, expected) => {
    const text = '{ "version": 1, "types": { "a/b": {}, "q\\"": { "x": [1, {"y": "]}"}] } },\n "relations": [{ "from": "a", "to": "x" }, {}] }';
    const place = placeOf(text, path)!;
    expect(text.slice(place.from, place.to)).toBe(expected);
  });

  it.each(["", "{", "[1,", '{"a"', "}"])("that is no JSON (%j) never hangs the search", (text) => {
    expect(() => placeOf(text, "/a/b")).not.toThrow();
  });
});

describe("the picture of a model", () => {
  const diagram = diagramOf(MODEL, REPORT);

  it("has declared and inferred types, relations and what was found", () => {
    expect(diagram.boxes.map(({ name, isDeclared, items, findings }) => [name, isDeclared, items, findings])).toEqual([
      ["author", true, 30, 1], ["book", true, 60, 1], ["agent", false, 3, 0],
    ]);
    expect(diagram.boxes[1]!.mark).toBe("critical");
    expect(diagram.boxes[0]!.rows.slice(0, 2)).toEqual([{ path: "/id", kind: "string", mark: null }, { path: "/agent", kind: "link", mark: "warning" }]);
    expect(diagram.boxes[1]!.rows.map(({ path, kind }) => `${path} ${kind}`)).toContain("/authors/*/name copy");
    expect(diagram.lines.map(({ from, to, label, isDeclared, mark }) => [from, to, label, isDeclared, mark])).toEqual([
      ["book", "author", "author", true, null], ["author", "agent", "98 %", false, "warning"],
    ]);
  });

  it("draws data that is named for its container as the one type that is declared for it", () => {
    const model: JsonObject = { version: 1, types: { post: { container: "posts" } } };
    const report: Report = { ...REPORT, types: [{ name: "posts", container: "posts", items: 5, paths: {} }], links: [], findings: [finding({ type: "posts" })] };
    const { boxes, names } = diagramOf(model, report);
    expect(boxes).toMatchObject([{ name: "post", items: 5, findings: 1 }]);
    expect(names.get("posts")).toBe("post");
  });

  it("is placed without boxes that overlap, what refers left of what it refers to", () => {
    const lone = { name: "lone", container: "x", isDeclared: false, items: 1, rows: [], mark: null, findings: 0 };
    const { boxes, lines, width, height } = placeDiagram({ ...diagram, boxes: [...diagram.boxes, lone] });
    expect(boxes).toHaveLength(4);
    expect(lines).toHaveLength(2);
    for (const [index, a] of boxes.entries()) {
      expect(a.x >= 0 && a.y >= 0 && a.x + BOX_WIDTH <= width && a.y + a.height <= height).toBe(true);
      for (const b of boxes.slice(index + 1)) {
        expect(a.x + BOX_WIDTH <= b.x || b.x + BOX_WIDTH <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y).toBe(true);
      }
    }
    const left = (name: string) => boxes.find(({ box }) => box.name === name)!.x;
    expect([left("book") < left("author"), left("author") < left("agent")]).toEqual([true, true]);
    const narrow = placeDiagram({ ...diagram, boxes: [...diagram.boxes, lone] }, true);
    expect(new Set(narrow.boxes.map(({ x }) => x)).size).toBe(1);
    expect(narrow.boxes.map(({ box }) => box.name)).toEqual(["book", "author", "agent", "lone"]);
    expect(narrow.width).toBeLessThan(BOX_WIDTH * 2);
  });

  it("is placed although relations go in circles or nowhere", () => {
    const box = (name: string) => ({ name, container: "c", isDeclared: true, items: null, rows: [], mark: null, findings: 0 });
    const line = (from: string, to: string) => ({ from, path: "/x", to, label: "x", hint: "", isDeclared: true, mark: null });
    const placed = placeDiagram({ boxes: ["a", "b", "c"].map(box), lines: [line("a", "b"), line("b", "c"), line("c", "a"), line("a", "a"), line("a", "gone")], names: new Map() });
    expect(placed.boxes).toHaveLength(3);
    expect(placed.lines).toHaveLength(4);
    expect(placeDiagram({ boxes: [], lines: [], names: new Map() })).toMatchObject({ boxes: [], lines: [] });
  });

  it("is fitted until it is moved, and grows around the pointer", () => {
    const viewport = new Viewport();
    viewport.setFrame({ width: 500, height: 400 });
    viewport.setPicture({ width: 1000, height: 200 });
    expect(viewport.look.value).toEqual({ x: 0, y: 150, scale: 0.5 });
    viewport.zoom(2, { x: 100, y: 150 });
    expect(viewport.look.value).toEqual({ x: -100, y: 150, scale: 1 });
    viewport.setFrame({ width: 600, height: 400 });
    expect(viewport.look.value.scale).toBe(1);
    viewport.fit();
    expect(viewport.look.value.scale).toBe(0.6);
    viewport.pan(-5000, 0);
    viewport.reveal({ x: 0, y: 0, width: 100, height: 50 });
    expect(viewport.look.value.x).toBeGreaterThanOrEqual(0);
  });
});

it("a rule tells how far it is, what breaks it and what is to follow", () => {
  const states = statesOf({ ...MODEL, _state: [
    { rule: "/types/book", state: "enforced" },
    { rule: "/relations/0", state: "building", progress: 40, violations: 2, samples: ["'b1' in 'library'"] },
    { rule: "/relations/1", state: "enforced", pending: 3, lagMs: 1200 },
  ] });
  expect(states.map(isUnsettled)).toEqual([false, true, true]);
  expect(states[1]).toMatchObject({ progress: 40, violations: 2, samples: ["'b1' in 'library'"], pending: 0 });
  expect(states[2]).toMatchObject({ progress: null, pending: 3, lagMs: 1200 });
  expect(statesOf(null)).toEqual([]);
});

it("a cost is in bytes and units, or in units alone", () => {
  const effort = (requestUnits: number) => ({ bytes: requestUnits * 200, requestUnits });
  expect(costOf(finding({ cost: { of: "one write", measured: effort(9), estimated: effort(5) } }))).toMatchObject({ now: { requestUnits: 9 }, after: { bytes: 1000 } });
  expect(costOf(finding({ counts: { costOf: "one write", requestUnitsNow: 8, requestUnitsAfter: 3 } }))).toEqual({ of: "one write", now: { requestUnits: 8 }, after: { requestUnits: 3 } });
  expect(costOf(finding({}))).toBeNull();
});

it("a difference leaves out what is far from any change", () => {
  const same = (n: number) => Array.from({ length: n }, (_, at) => ({ kind: "same" as const, text: String(at) }));
  const short = shortened([...same(10), { kind: "added", text: "new" }, ...same(2)]);
  expect(short.map((line) => line?.text ?? null)).toEqual([null, "7", "8", "9", "new", "0", "1"]);
});

it("a change of the feed of all versions tells what happened", () => {
  expect(readChange({ id: "a", _ts: 1000 }, "latest")).toEqual({ at: new Date(1_000_000), item: { id: "a", _ts: 1000 }, operation: null, isExpired: false });
  expect(readChange({ id: "a" }, "latest").at).toBeNull();
  expect(readChange({ current: { id: "a" }, metadata: { operationType: "create" } }, "all")).toMatchObject({ item: { id: "a" }, operation: "create" });
  const gone: JsonObject = { current: {}, previous: { id: "b", n: 1 }, metadata: { operationType: "delete", id: "b", crts: 5, timeToLiveExpired: true } };
  expect(readChange(gone, "all")).toEqual({ at: new Date(5_000), item: { id: "b", n: 1 }, operation: "delete", isExpired: true });
  expect(readChange({ current: {}, metadata: { operationType: "delete", id: "b" } }, "all").item).toEqual({ id: "b" });
});

it("buckets of a declared array are no type of their own", () => {
  const model: JsonObject = { version: 1, types: { post: { container: "blog" } }, buckets: [{ on: "post", array: "/comments", bucket: { items: 100, link: "/postId" } }] };
  const types = [
    { name: "post", container: "blog", items: 2, paths: { "/title": "string" } },
    { name: "blog", container: "blog", items: 3, paths: { "/postId": "string", "/comments": "array" } },
  ];
  const links = [{ from: "blog", path: "/postId", to: "post", matchRate: 1, declared: false }];
  const drawn = (buckets: JsonObject[], container = "blog") => {
    const report = { ...REPORT, types: types.map((type) => (type.name === "blog" ? { ...type, container } : type)), links, findings: [] };
    const { boxes, lines } = diagramOf({ ...model, buckets }, report);
    return [boxes.map(({ name }) => name), lines.length];
  };
  expect(drawn(model.buckets as JsonObject[])).toEqual([["post"], 0]);
  expect(drawn([])).toEqual([["post", "blog"], 1]);
  expect(drawn(model.buckets as JsonObject[], "elsewhere")).toEqual([["post", "blog"], 1]);
});
