// The text of something that is edited, and the version it is based on. A version that arrives from the
// server replaces the text only where nobody has changed it: what was typed is never lost to an answer
// that came late, and keeps the etag it was based on, so that saving it reports the conflict.
import { type ReadonlySignal, type Signal, batch, computed, signal } from "@preact/signals";

export class EditBuffer<T> {
  /** The version that the text was made of; null while nothing is stored. */
  readonly base: Signal<T | null>;
  readonly text: Signal<string>;
  readonly isModified: ReadonlySignal<boolean>;

  /** `textOf` gives the unmodified text of a version; of null, that of something new. */
  constructor(base: T | null, private readonly textOf: (version: T | null) => string) {
    this.base = signal(base);
    this.text = signal(textOf(base));
    this.isModified = computed(() => this.text.value !== textOf(this.base.value));
  }

  /** A version was read again: it replaces a text that is not modified. Whether it did. */
  refresh(version: T | null): boolean {
    if (this.isModified.peek()) return false;
    this.reset(version);
    return true;
  }

  /** `sent` was stored as `version`. What was typed since then is a change of that version. */
  saved(version: T, sent: string): void {
    if (this.text.peek() === sent) this.reset(version);
    else this.base.value = version;
  }

  /** Goes on with the same text over another version. */
  rebase(version: T | null): void {
    this.base.value = version;
  }

  /** Gives the changes up. */
  reset(version: T | null = this.base.peek()): void {
    batch(() => {
      this.base.value = version;
      this.text.value = this.textOf(version);
    });
  }
}
