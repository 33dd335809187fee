import { describe, expect, it } from "vitest";
import { Client, type LoggedRequest } from "../src/protocol/client";
import { partitionKeyHeader, pathNames } from "../src/protocol/partition-key";
import { Problem, editorOffset, readProblem } from "../src/protocol/problem";
import { FIRST_PAGE, arrived, currentToken, nextPage, previousPage } from "../src/state/paging";

describe("partition keys", () => {
  it.each([
    [{ a: "x" }, ["/a"], '["x"]'],
    [{ a: { b: 5 } }, ["/a/b"], "[5]"],
    [{ a: null }, ["/a"], "[null]"],
    [{}, ["/a"], "[{}]"],
    [{ a: [1] }, ["/a"], "[{}]"],
    [{ t: "é", u: true, "a b": 1 }, ["/t", "/u", '/"a b"'], '["\\u00e9",true,1]'],
    [{}, ["/constructor"], "[{}]"],
  ])("of %j at %j are %s", (item, paths, expected) => {
    expect(partitionKeyHeader(item as never, paths)).toBe(expected);
  });

  it("have paths of names", () => {
    expect(pathNames('/a/"b c"/d')).toEqual(["a", "b c", "d"]);
  });
});

describe("errors", () => {
  it("are read out of the server's body", () => {
    const body = JSON.stringify({
      code: "BadRequest",
      message: 'Message: {"errors":[{"severity":"Error","location":{"start":7,"end":8},"code":"SC2001","message":"Identifier \'x\' could not be resolved."}]}\r\nActivityId: 1, Request URI: /x',
    });
    const problem = readProblem(400, 0, body);
    expect(problem.message).toBe("Identifier 'x' could not be resolved. (SC2001)");
    expect(problem.faults).toEqual([{ start: 7, end: 8, code: "SC2001", message: "Identifier 'x' could not be resolved." }]);
  });

  it("may be a list, plain text or no JSON at all", () => {
    const list = JSON.stringify({ code: "Conflict", message: 'Message: {"Errors":["It exists."]}\r\nActivityId: 1' });
    expect(readProblem(409, 0, list).message).toBe("It exists.");
    expect(readProblem(401, 0, '{"code":"Unauthorized","message":"No.\\r\\nActivityId: 1"}').message).toBe("No.");
    expect(readProblem(502, 0, "<html>bad gateway").message).toBe("<html>bad gateway");
    expect(readProblem(502, 0, "").message).toBe("The server answered 502.");
  });

  it("count characters as the server does", () => {
    expect(editorOffset("a😀b", 2)).toBe(3);
    expect(editorOffset("ab", 9)).toBe(2);
  });
});

describe("pages", () => {
  it("go forth and back with the tokens seen", () => {
    let paging = arrived(FIRST_PAGE, "t1");
    paging = arrived(nextPage(paging), "t2");
    expect(currentToken(paging)).toBe("t1");
    paging = arrived(nextPage(paging), null);
    expect(currentToken(paging)).toBe("t2");
    expect(paging.isLast).toBe(true);
    expect(nextPage(paging)).toBe(paging);
    paging = previousPage(paging);
    expect(currentToken(paging)).toBe("t1");
    expect(previousPage(previousPage(paging)).index).toBe(0);
  });

  it("forget what lies behind a page that was fetched again", () => {
    let paging = arrived(nextPage(arrived(FIRST_PAGE, "t1")), "t2");
    paging = arrived(previousPage(paging), "other");
    expect(paging.tokens).toEqual([null, "other"]);
  });
});

describe("the client", () => {
  const signer = { sign: async (text: string) => btoa(text) };
  const answering = (answers: Response[]) => {
    const sent: { url: string; init: RequestInit }[] = [];
    globalThis.fetch = (async (url: URL, init: RequestInit) => {
      sent.push({ url: String(url), init });
      return answers.shift()!;
    }) as typeof fetch;
    return sent;
  };

  it("encodes names in the path and keeps bodies and keys out of its log", async () => {
    const log: LoggedRequest[] = [];
    const client = new Client("http://localhost/", signer, (request) => log.push(request));
    const sent = answering([new Response("{}", { headers: { "x-ms-request-charge": "2.5" } })]);
    await client.send({ method: "GET", segments: ["dbs", "a b/ü"] });
    expect(sent[0]!.url).toBe("http://localhost/dbs/a%20b%2F%C3%BC");
    expect(log[0]).toMatchObject({ path: "/dbs/a%20b%2F%C3%BC", status: 200, charge: 2.5 });
    expect(JSON.stringify(log)).not.toContain("sig");
  });

  it("throws what the server says", async () => {
    const client = new Client("http://localhost/", signer);
    answering([new Response('{"code":"NotFound","message":"No."}', { status: 404, headers: { "x-ms-substatus": "1003" } })]);
    const problem = await client.send({ method: "GET", segments: ["dbs"] }).catch((error: unknown) => error);
    expect(problem).toBeInstanceOf(Problem);
    expect(problem).toMatchObject({ status: 404, subStatus: 1003, code: "NotFound" });
  });

  it("follows the server's clock where its own is wrong, once", async () => {
    const client = new Client("http://localhost/", signer);
    const date = new Date(Date.now() + 3_600_000).toUTCString();
    const refusal = () => new Response('{"code":"Forbidden","message":"x"}', { status: 403, headers: { date } });
    const sent = answering([refusal(), new Response("{}")]);
    await client.send({ method: "GET", segments: [] });
    const used = (sent[1]!.init.headers as Record<string, string>)["x-ms-date"]!;
    expect(Math.abs(Date.parse(used) - Date.parse(date))).toBeLessThan(5000);
    answering([refusal()]);
    await expect(client.send({ method: "GET", segments: [] })).rejects.toBeInstanceOf(Problem);
  });
});
