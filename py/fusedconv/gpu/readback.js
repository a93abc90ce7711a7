// Readback from one GPUDevice, through a pool of mappable buffers.
//
// The value of this file is a function that makes the reader of a store. A read is a ticket:
// `start` copies on the GPU, `mapped` waits, and `copyOut`, `toJs` or `abandon` ends it.
(() => {
  "use strict";
  const MAP_READ = 1, COPY_SRC = 4, COPY_DST = 8;
  const IDLE_BYTES = 64 * 2 ** 20;

  return (device, store, { depart, submitWith }) => {
    const { CLEAN, Refusal, check, outcome, padded, refused, scoped, tally } = store;
    const idle = new Map();
    const reads = new Map();
    let idleBytes = 0;

    function destroy(record) {
      tally.staging -= record.size;
      record.buffer.destroy();
    }

    function take(nbytes) {
      const size = store.classOf(nbytes), found = idle.get(size)?.at(-1);
      if (found) {
        store.drop(idle, found);
        idleBytes -= size;
        return { record: found, tokens: CLEAN };
      }
      store.reserve(size);
      let buffer;
      const token = scoped(() => {
        buffer = device.createBuffer({ size, usage: MAP_READ | COPY_DST });
      });
      tally.created += 1;
      tally.staging += size;
      store.notePeak();
      return { record: { buffer, size, stamp: 0 }, tokens: [token] };
    }

    function giveBack(record) {
      if (idleBytes + record.size > IDLE_BYTES) {
        destroy(record);
        return;
      }
      idleBytes += record.size;
      store.push(idle, record);
    }

    // Destroys what is idle.
    function spare() {
      for (const list of idle.values()) list.forEach(destroy);
      idle.clear();
      idleBytes = 0;
    }

    function copy(source, target, nbytes) {
      submitWith((encoder) => (
        encoder.copyBufferToBuffer(source.buffer, 0, target.buffer, 0, padded(nbytes))));
    }

    // A ticket, or the text of an error.
    function start(id, nbytes) {
      try {
        check();
        const source = store.get(id);
        if (!(source.buffer.usage & COPY_SRC)) {
          throw new Refusal("request", "a buffer without the usage COPY_SRC",
            { allowed: "a buffer made with COPY_SRC" });
        }
        const { record, tokens } = take(nbytes), open = [...store.unsettled(source.tokens), ...tokens];
        if (source.watched || open.length) {
          depart(); // the runs that wait shall not fail with the copy
          open.push(scoped(() => copy(source, record, nbytes)));
        } else copy(source, record, nbytes);
        const map = record.buffer.mapAsync(MAP_READ, 0, padded(nbytes));
        map.catch(() => {});
        const ticket = store.nextId();
        reads.set(ticket, { record, map, nbytes, open });
        return ticket;
      } catch (error) {
        return refused(error);
      }
    }

    // A promise of 0 or of the text of an error.
    async function mapped(ticket) {
      const { map, open } = reads.get(ticket);
      let problem = null;
      await map.catch((error) => { problem = error; });
      try {
        const failed = open.length ? await outcome(open) : 0;
        if (failed) return failed;
        if (problem) await store.lostSoon();
        check();
        return problem ? refused(problem) : 0;
      } catch (error) {
        return refused(error);
      }
    }

    function bytesOf({ record, nbytes }) {
      return new Uint8Array(record.buffer.getMappedRange(0, padded(nbytes)), 0, nbytes);
    }

    function finish(ticket) {
      const { record } = reads.get(ticket);
      reads.delete(ticket);
      record.buffer.unmap();
      giveBack(record);
    }

    // Fills a Python buffer of exactly the bytes that were read.
    function copyOut(ticket, target) {
      const borrowed = target.getBuffer("u8");
      borrowed.data.set(bytesOf(reads.get(ticket)));
      borrowed.release();
      finish(ticket);
    }

    // A typed array for JavaScript. Halves are a Uint16Array: Pyodide cannot hold a Float16Array.
    function toJs(ticket, half) {
      const { buffer } = bytesOf(reads.get(ticket)).slice();
      finish(ticket);
      return half ? new Uint16Array(buffer) : new Float32Array(buffer);
    }

    function abandon(ticket) {
      const read = reads.get(ticket);
      if (!read) return;
      reads.delete(ticket);
      destroy(read.record);
    }

    function close() {
      spare();
      [...reads.keys()].forEach(abandon);
    }

    store.setSpare(spare);
    return { abandon, close, copyOut, count: () => reads.size, mapped, spare, start, toJs };
  };
})()
