// Relations of a model as a form edits them. A relation is known by its source type and path.
import { type JsonObject, isObject } from "../protocol/json";
import { entries } from "../protocol/model";

export interface RelationForm {
  name: string;
  from: string;
  path: string;
  to: string;
  onMissing: string;
  onDelete: string;
  propagate: string;
}

/** Settings with what they may be; the first of each is what holds when nothing is said. */
export const CHOICES: Readonly<Record<"onMissing" | "onDelete" | "propagate", readonly string[]>> = {
  onMissing: ["allow", "reject"],
  onDelete: ["keep", "restrict", "cascade", "unset", "pull"],
  propagate: ["async", "sync"],
};

export function declaredTypes(model: JsonObject | null): string[] {
  return isObject(model?.types) ? Object.keys(model.types) : [];
}

export function findRelation(model: JsonObject | null, from: string, path: string): JsonObject | null {
  return entries(model, "relations").find((relation) => relation.from === from && relation.path === path) ?? null;
}

/** A relation as the form shows it; of a new one, only where it leads is known. */
export function formOf(relation: JsonObject): RelationForm {
  const text = (name: string, fallback: string) => (typeof relation[name] === "string" ? relation[name] : fallback);
  return {
    name: text("name", ""), from: text("from", ""), path: text("path", ""), to: text("to", ""),
    onMissing: text("onMissing", CHOICES.onMissing[0]!), onDelete: text("onDelete", CHOICES.onDelete[0]!), propagate: text("propagate", CHOICES.propagate[0]!),
  };
}

/** What is wrong with a form, for the person; null if nothing is. */
export function formProblem({ name, from, path, to }: RelationForm): string | null {
  if (name.trim() === "") return "Give the relation a name: queries use it as a property.";
  if (from === "" || to === "") return "Choose the type that refers and the type that is referred to.";
  return path.startsWith("/") && path.length > 1 ? null : "The path begins with a slash, such as /authorId or /authors/*/id.";
}

/** The model with a relation as the form has it, in place of the one that was edited; everything else stays. */
export function withRelation(model: JsonObject, edited: JsonObject | null, form: RelationForm): JsonObject {
  const relation: JsonObject = { ...edited, name: form.name.trim(), from: form.from, path: form.path, to: form.to };
  for (const setting of ["onMissing", "onDelete", "propagate"] as const) {
    // What is the default and was not written stays unwritten.
    if (form[setting] !== CHOICES[setting][0] || edited?.[setting] !== undefined) relation[setting] = form[setting];
  }
  const all = entries(model, "relations");
  const relations = edited === null ? [...all, relation] : all.map((one) => (isSame(one, edited) ? relation : one));
  return { ...model, relations };
}

export function withoutRelation(model: JsonObject, gone: JsonObject): JsonObject {
  return { ...model, relations: entries(model, "relations").filter((one) => !isSame(one, gone)) };
}

function isSame(a: JsonObject, b: JsonObject): boolean {
  return a.from === b.from && a.path === b.path;
}
