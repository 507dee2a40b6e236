// What programs in JavaScript do with ioredis, node-redis and BullMQ, with both versions of the protocol.
// Usage, where the three are installed: node clients.mjs PORT
import assert from "node:assert/strict";
import { once } from "node:events";

import { Queue, QueueEvents, Worker } from "bullmq";
import Redis from "ioredis";
import { WatchError, createClient, defineScript } from "redis";

const port = Number(process.argv[2]);
const TWICE = "return {ARGV[1], redis.call('incrby', KEYS[1], 2 * ARGV[1])}";

async function ioredis(protocol) {
  const redis = new Redis({ port, protocol });
  const other = redis.duplicate();
  await redis.flushall();
  const pipelined = await redis.pipeline().set("a", 1).incr("a").hset("h", { f: "x" }).hgetall("h").incr("h").exec();
  assert.deepEqual(pipelined.slice(0, 4), [[null, "OK"], [null, 2], [null, 1], [null, { f: "x" }]]);
  assert.match(pipelined[4][0].message, /^WRONGTYPE/);
  assert.deepEqual(await redis.multi().get("a").del("a").exec(), [[null, "2"], [null, 1]]);
  await redis.watch("a");
  await other.set("a", 5);
  assert.equal(await redis.multi().incr("a").exec(), null);
  redis.defineCommand("twice", { numberOfKeys: 1, lua: TWICE });
  assert.deepEqual(await redis.twice("a", 4), ["4", 13]);
  const popped = redis.blpop("list", 5);
  await other.rpush("list", "apple");
  assert.deepEqual(await popped, ["list", "apple"]);
  await redis.subscribe("fruit");
  const told = once(redis, "message");
  assert.equal(await other.publish("fruit", "red"), 1);
  assert.deepEqual(await told, ["fruit", "red"]);
  await redis.unsubscribe();
  await redis.zadd("z", 1, "one", 2.5, "two");
  const seen = [];
  for await (const keys of redis.scanStream({ count: 2 })) seen.push(...keys);
  assert.deepEqual(seen.sort(), ["a", "h", "z"]);
  await Promise.all([redis.quit(), other.quit()]);
}

async function nodeRedis(RESP) {
  const twice = defineScript({
    SCRIPT: TWICE,
    NUMBER_OF_KEYS: 1,
    parseCommand(parser, key, by) {
      parser.pushKey(key);
      parser.push(String(by));
    },
    transformReply: (reply) => reply,
  });
  const redis = await createClient({ url: `redis://localhost:${port}`, RESP, scripts: { twice } }).connect();
  const other = await redis.duplicate().connect();
  await redis.flushAll();
  const at_once = await Promise.all([redis.set("a", "1"), redis.incr("a"), redis.hSet("h", "f", "x")]);
  assert.deepEqual(at_once, ["OK", 2, 1]);
  assert.deepEqual({ ...(await redis.hGetAll("h")) }, { f: "x" });
  assert.deepEqual(await redis.multi().get("a").del("a").exec(), ["2", 1]);
  await redis.watch("a");
  await other.set("a", "5");
  await assert.rejects(redis.multi().incr("a").exec(), WatchError);
  assert.deepEqual(await redis.twice("a", 4), ["4", 13]);
  const popped = redis.blPop("list", 5);
  await other.rPush("list", "apple");
  assert.deepEqual({ ...(await popped) }, { key: "list", element: "apple" });
  await redis.zAdd("z", [{ score: 2.5, value: "two" }, { score: 1, value: "one" }]);
  const scored = await redis.zRangeWithScores("z", 0, -1);
  assert.deepEqual(scored.map((it) => ({ ...it })), [{ value: "one", score: 1 }, { value: "two", score: 2.5 }]);
  const told = new Promise((resolve) => other.pSubscribe("f*", (...message) => resolve(message)).then(() => redis.publish("fruit", "red")));
  assert.deepEqual(await told, ["red", "fruit"]);
  await Promise.all([redis.close(), other.close()]);
}

async function bullmq() {
  const connection = { port, maxRetriesPerRequest: null };
  const queue = new Queue("words", { connection });
  const events = new QueueEvents("words", { connection });
  const worker = new Worker("words", async (job) => job.data.split(" ").length, { connection, concurrency: 4 });
  await Promise.all([events.waitUntilReady(), worker.waitUntilReady()]);
  const texts = ["apple", "red apple", "a dark red cherry"];
  const jobs = await queue.addBulk(texts.map((data) => ({ name: "count", data })));
  const late = await queue.add("count", "a bit later", { delay: 300, priority: 2 });
  const counted = await Promise.all([...jobs, late].map((job) => job.waitUntilFinished(events, 20000)));
  assert.deepEqual(counted, [1, 2, 4, 3]);
  assert.deepEqual(await queue.getJobCounts("completed", "failed", "wait"), { completed: 4, failed: 0, wait: 0 });
  await worker.close();
  await queue.obliterate();
  await Promise.all([events.close(), queue.close()]);
}

for (const [name, run] of Object.entries({ ioredis, nodeRedis })) {
  for (const protocol of [2, 3]) {
    await run(protocol);
    console.log(`${name}: RESP${protocol} passed`);
  }
}
await bullmq();
console.log("bullmq: passed");
