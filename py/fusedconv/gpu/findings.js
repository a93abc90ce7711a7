// What tuning has found, kept in the browser's IndexedDB as texts.
(() => {
  "use strict";
  const NAME = "fusedconv", STORE = "tunings";

  const done = (request) => new Promise((given, failed) => {
    request.onsuccess = () => given(request.result);
    request.onerror = request.onblocked = () => failed(request.error ?? new Error("blocked"));
  });

  async function using(mode, action) {
    const opening = indexedDB.open(NAME, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    const database = await done(opening);
    try {
      return await action(database.transaction(STORE, mode).objectStore(STORE));
    } finally {
      database.close();
    }
  }

  // All texts, as a JSON array; makes no database where there is none.
  async function all() {
    const known = await indexedDB.databases();
    if (!known.some(({ name }) => name === NAME)) return "[]";
    return JSON.stringify(await using("readonly", (store) => done(store.getAll())));
  }

  const put = (key, text) => using("readwrite", (store) => done(store.put(text, key)));
  const remove = (key) => using("readwrite", (store) => done(store.delete(key)));
  const clear = () => done(indexedDB.deleteDatabase(NAME));

  return globalThis.indexedDB ? { all, clear, put, remove } : null;
})()
