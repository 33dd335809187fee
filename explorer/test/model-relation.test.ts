import { expect, it } from "vitest";
import type { JsonObject } from "../src/protocol/json";
import { declaredTypes, findRelation, formOf, formProblem, withRelation, withoutRelation } from "../src/text/model-relation";

const AUTHOR: JsonObject = { name: "author", from: "book", path: "/authorId", to: "author", onDelete: "unset", copies: { author: "t.name" } };
const MODEL: JsonObject = { version: 1, types: { author: {}, book: {} }, relations: [AUTHOR, { name: "p", from: "book", path: "/pub", to: "author" }] };
const form = { name: "writer", from: "book", path: "/writer", to: "author", onMissing: "reject", onDelete: "keep", propagate: "async" };

it("a new relation is added with what differs from the defaults, and nothing else changes", () => {
  const before = JSON.stringify(MODEL);
  const after = withRelation(MODEL, null, form);
  expect((after.relations as JsonObject[])[2]).toEqual({ name: "writer", from: "book", path: "/writer", to: "author", onMissing: "reject" });
  expect((after.relations as JsonObject[]).slice(0, 2)).toEqual(MODEL.relations);
  expect(JSON.stringify(MODEL)).toBe(before);
  expect(withRelation({ version: 1 }, null, form).relations).toHaveLength(1);
});

it("an edited relation keeps its place and what the form does not show", () => {
  const edited = findRelation(MODEL, "book", "/authorId")!;
  const after = withRelation(MODEL, edited, { ...formOf(edited), onDelete: "keep", propagate: "sync" });
  expect((after.relations as JsonObject[])[0]).toEqual({ ...AUTHOR, onDelete: "keep", propagate: "sync" });
  expect(after.relations).toHaveLength(2);
});

it("a relation is taken out by its source and path", () => {
  expect((withoutRelation(MODEL, AUTHOR).relations as JsonObject[]).map(({ name }) => name)).toEqual(["p"]);
});

it("a form says what is missing", () => {
  expect(formProblem(form)).toBeNull();
  expect(formProblem({ ...form, name: " " })).toContain("name");
  expect(formProblem({ ...form, to: "" })).toContain("type");
  expect(formProblem({ ...form, path: "writer" })).toContain("slash");
  expect([declaredTypes(MODEL), declaredTypes(null)]).toEqual([["author", "book"], []]);
});
