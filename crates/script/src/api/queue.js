// Operations that wait to be done. A script only ever puts one here; the server takes them out one
// by one, does them, and runs the callback with what came of it.

class OperationQueue {
  #waiting = [];
  #first = 0;
  #current;
  #count = 0;
  #countMax;
  #timeIsShort;

  constructor(countMax, timeIsShort) {
    this.#countMax = countMax;
    this.#timeIsShort = timeIsShort;
  }

  // Whether another operation would still be taken.
  accepts() {
    return this.#count < this.#countMax && !this.#timeIsShort();
  }

  // Takes an operation, or says that it does not: a script then ends with what it has.
  // `settle(error, value, options)` gets the outcome.
  add(request, settle) {
    if (!this.accepts()) {
      return false;
    }
    this.#count += 1;
    this.#waiting.push({ request, settle });
    return true;
  }

  next() {
    if (this.#first === this.#waiting.length) {
      this.#waiting = [];
      this.#first = 0;
      return undefined;
    }
    this.#current = this.#waiting[this.#first];
    this.#waiting[this.#first] = undefined;
    this.#first += 1;
    return this.#current.request;
  }

  succeed(value, options) {
    this.#current.settle(undefined, value, options);
  }

  fail(number, message) {
    this.#current.settle(operationError(number, message));
  }
}
