import { expect, it } from "vitest";
import { readPlan } from "../src/protocol/plan";
import { clausesOf, withClauses } from "../src/text/plan-clauses";

it("clauses of the outermost query are found, whatever they hold", () => {
  const check = (text: string, where: string | null, groupBy: string | null, orderBy: string | null) =>
    expect(clausesOf(text), text).toEqual({ where, groupBy, orderBy });
  check("SELECT * FROM c", null, null, null);
  check("select * from c where c.a = 1\n  and c.b > 2 order by c.a desc offset 1 limit 2", "c.a = 1 and c.b > 2", null, "c.a desc");
  check("SELECT c.k, COUNT(1) FROM c WHERE c.x = 'ORDER BY' GROUP BY c.k, c.l", "c.x = 'ORDER BY'", "c.k, c.l", null);
  check("SELECT * FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 1 ORDER BY t) -- ORDER BY c.no", "EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 1 ORDER BY t)", null, null);
  check('SELECT * FROM c WHERE c["order"] = "a\\"b WHERE" ORDER BY c["group"]', 'c["order"] = "a\\"b WHERE"', null, 'c["group"]');
  check("SELECT * FROM c WHERE c.where = 1", "c.where = 1", null, null);
  check("", null, null, null);
});

it("steps without an expression get that of the query", () => {
  const plan = readPlan(JSON.stringify({
    node: "Sort by 2 keys", inputs: [{ node: "Filter", inputs: [{ node: "IndexSeek /a = 1" }] }],
  }))!;
  const shown = withClauses(plan, "SELECT * FROM c WHERE c.a = 1 AND c.b = 2 ORDER BY c.x, c.y");
  expect([shown.detail, shown.inputs[0]!.detail, shown.inputs[0]!.inputs[0]!.detail]).toEqual(["by c.x, c.y", "c.a = 1 AND c.b = 2", "/a = 1"]);
});
