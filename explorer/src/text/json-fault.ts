// Where a text stops being JSON. Browsers say it in words of their own, some without the place; an
// editor needs the place.

export interface JsonFault {
  at: number;
  message: string;
}

/** The first fault of a text, or null if it is JSON. */
export function findJsonFault(text: string): JsonFault | null {
  try {
    const scanner = new Scanner(text);
    scanner.value();
    scanner.end();
    return null;
  } catch (fault) {
    if (fault instanceof Found) return { at: fault.at, message: fault.message };
    throw fault;
  }
}

class Found extends Error {
  constructor(readonly at: number, message: string) {
    super(message);
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORD = /true|false|null/y;

class Scanner {
  private at = 0;
  constructor(private readonly text: string) {}

  value(): void {
    this.space();
    const char = this.text[this.at];
    if (char === "{") this.members("}", () => this.member());
    else if (char === "[") this.members("]", () => this.value());
    else if (char === '"') this.string();
    else if (!this.match(NUMBER) && !this.match(WORD)) this.fail("a value is missing here");
  }

  end(): void {
    this.space();
    if (this.at < this.text.length) this.fail("the text goes on after its end");
  }

  private members(close: string, one: () => void): void {
    this.at++;
    this.space();
    if (this.text[this.at] === close) {
      this.at++;
      return;
    }
    for (;;) {
      one();
      this.space();
      const char = this.text[this.at];
      if (char === close) {
        this.at++;
        return;
      }
      if (char !== ",") this.fail(`a comma or ${close} is missing here`);
      this.at++;
      this.space();
      if (this.text[this.at] === close) this.fail("a comma stands before the end");
    }
  }

  private member(): void {
    this.space();
    if (this.text[this.at] !== '"') this.fail("the name of a property is missing here, in double quotes");
    this.string();
    this.space();
    if (this.text[this.at] !== ":") this.fail("a colon is missing here");
    this.at++;
    this.value();
  }

  private string(): void {
    if (!this.match(STRING)) this.fail("this string does not end, or holds an escape that does not exist");
  }

  private match(pattern: RegExp): boolean {
    pattern.lastIndex = this.at;
    if (!pattern.test(this.text)) return false;
    this.at = pattern.lastIndex;
    return true;
  }

  private space(): void {
    while (" \n\r\t".includes(this.text[this.at] ?? "x")) this.at++;
  }

  private fail(message: string): never {
    throw new Found(this.at, message);
  }
}

/** The line and column of a place, both from 1. */
export function lineAndColumn(text: string, at: number): { line: number; column: number } {
  const before = text.slice(0, at).split("\n");
  return { line: before.length, column: before.at(-1)!.length + 1 };
}
