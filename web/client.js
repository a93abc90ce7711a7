// Talks to the worker: calls with answers, and events.

export class WorkerError extends Error {
  constructor({ kind, message }) {
    super(message);
    this.kind = kind;
  }
}

export class Client {
  #worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  #waiting = new Map();
  #next = 1;

  // on: { TYPE: handler } for the worker's events.
  constructor(on) {
    this.#worker.addEventListener("message", ({ data }) => {
      if (data.id === undefined) return on[data.type]?.(data);
      const { resolve, reject } = this.#waiting.get(data.id);
      this.#waiting.delete(data.id);
      data.error ? reject(new WorkerError(data.error)) : resolve(data.value);
    });
    this.#worker.addEventListener("error", (event) => {
      const error = new WorkerError({ message: event.message || "The page's worker can't be started." });
      for (const { reject } of this.#waiting.values()) reject(error);
      this.#waiting.clear();
    });
  }

  call(type, content = {}, transfer = []) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ ...content, id, type }, transfer);
    });
  }
}
