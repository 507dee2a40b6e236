// The page: what the server tells each second, and its keys.
const at = (id) => document.getElementById(id);

// An element with properties and children; texts are never taken for markup.
const h = (tag, props = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), props);
  made.append(...children.flat(3).filter((child) => child !== null && child !== undefined));
  return made;
};

// Replaces what an element has, if that is new, so that what is selected stays; not while its user
// is at work in it.
const show = (id, ...children) => {
  const place = at(id);
  if (place !== document.activeElement && place.contains(document.activeElement)) return;
  const made = h("div", {}, children);
  if (made.innerHTML !== place.innerHTML) place.replaceChildren(...made.childNodes);
};

// Three digits, so that a number does not jump when it changes.
const digits = (value) => {
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return value < 99.95 ? value.toPrecision(3) : Math.round(value).toLocaleString("en");
};
// Units stay in the line of their numbers.
const bytes = (value) => {
  let unit = 0;
  for (; value >= 1000 && unit < 4; unit += 1) value /= 1024;
  return `${digits(value)}\u00a0${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
};
const span = (seconds) => {
  if (seconds === 0) return "0\u00a0s";
  if (seconds < 1e-3) return `${digits(seconds * 1e6)}\u00a0µs`;
  if (seconds < 1) return `${digits(seconds * 1e3)}\u00a0ms`;
  if (seconds < 120) return `${digits(seconds)}\u00a0s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)}\u00a0min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)}\u00a0h` : `${Math.round(seconds / 86400)}\u00a0d`;
};
const moment = (time) => {
  const day = time.toDateString() === new Date().toDateString() ? "" : `${time.toLocaleDateString("en-CA")} `;
  return day + time.toLocaleTimeString("en-GB");
};
const micros = (value) => (value === null ? "–" : span(value / 1e6));
const counted = (count, one) => `${digits(count)} ${one}${count === 1 ? "" : "s"}`;
const percent = (part, whole) => `${Math.round((100 * part) / Math.max(whole, 1))}%`;
const sum = (values) => values.reduce((left, right) => left + right, 0);
const say = (text) => h("p", { className: "say" }, text);
const quiet = (text) => h("p", { className: "quiet" }, text);
const row = (name, value) => h("p", { className: "row" }, h("span", {}, name), h("span", {}, value));

// A bar of parts, each with a width in hundredths and a class.
const bar = (...parts) => h("div", { className: "bar" }, parts.map(([part, className = ""]) => {
  const made = h("i", { className });
  made.style.width = `${Math.min(100, part)}%`;
  return made;
}));

// A table: a head, and rows of cells; `numbers` are the columns of numbers, the last one the rest.
const table = (caption, head, rows, numbers = []) => {
  const kind = (place) => (numbers.includes(place) ? "number" : "");
  return h("table", { ariaLabel: caption },
    h("thead", {}, h("tr", {}, head.map((text, place) =>
      h("th", { scope: "col", className: kind(place) }, text)))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, place) =>
      h("td", { className: kind(place) || (cell?.rest ? "rest" : "") }, cell?.rest ?? cell))))));
};

const big = (value, mark) => h("p", { className: "big" }, value,
  mark ? h("span", { className: `mark ${mark}` }, mark === "good" ? "good" : "high") : null);

// Says how the server is; what has not changed is not said again.
const judge = (severity, title, advice) => {
  const told = JSON.stringify([severity, title, advice]);
  if (at("told").dataset.told === told) return;
  at("told").dataset.told = told;
  at("verdict").className = `verdict ${severity}`;
  const item = ({ severity: of, cause, remedy }) => h("li", { className: of }, h("b", {}, cause), remedy);
  at("told").replaceChildren(h("h2", {}, title), ...(advice.length ? [h("ul", {}, advice.map(item))] : []));
};

const verdict = ({ advice, calls, p99 }) => {
  const severity = advice[0]?.severity ?? "good";
  judge(severity, {
    good: "All is well.",
    warning: advice.length === 1 ? "One thing needs a look." : `${advice.length} things need a look.`,
    alarm: "Something is wrong.",
  }[severity], advice);
  const rate = sum(calls.map((group) => group.seconds.at(-1) ?? 0));
  const does = rate === 0 ? "The server waits for commands" : `${counted(rate, "command")} a second`;
  at("does").textContent = `${does}${p99 ? `; 99 of 100 took less than ${micros(p99)}` : ""}.`;
};

const operations = ({ calls }) => {
  const rates = calls[0].seconds.map((_, place) => sum(calls.map((group) => group.seconds[place])));
  const most = Math.max(0, ...rates);
  const top = Math.max(1, ...calls.flatMap((group) => group.seconds));
  at("rate").textContent = digits(rates.at(-1) ?? 0);
  at("peak").textContent = most ? `peak ${digits(most)}` : "";
  at("spark").replaceChildren(...calls.filter((group) => group.seconds.some(Boolean)).map((group) => {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    const from = 300 - group.seconds.length;
    const points = group.seconds.map((value, place) => `${from + place},${79 - (78 * value) / top}`);
    path.setAttribute("d", `M${from},80L${points.join("L")}L300,80`);
    path.setAttribute("class", group.group);
    return path;
  }));
  at("calls").tBodies[0].replaceChildren(...calls.map((group) => h("tr", {},
    h("td", { className: `dot ${group.group}` }, group.group),
    h("td", {}, digits(group.seconds.at(-1) ?? 0)),
    [group.p50, group.p99, group.p999].map((time) => h("td", {}, micros(time))))));
};

const amplification = ({ amplification: of, space, stalls, caches }) => {
  const enough = of.user_bytes >= 1 << 20;
  const parts = Object.entries(of.written).filter(([, written]) => written > 0);
  const all = sum(parts.map(([, written]) => written));
  show("write",
    enough ? big(digits(of.write), of.write <= 15 ? "good" : "warning") : big("–"),
    say(enough
      ? `bytes were written for each byte of keys and values. Up to 15 is good; what is above wears the disk.`
      : "Too little was written to tell how much each byte costs."),
    parts.length ? bar(...parts.map(([name, written]) => [(100 * written) / all, name])) : [],
    parts.map(([name, written]) => row(h("span", { className: `dot ${name}` }, name), bytes(written))));
  const hits = caches.filter(({ hits: found, misses }) => found + misses > 0);
  show("read",
    of.read ? big(String(of.read), of.read <= 12 ? "good" : "warning") : big("–"),
    say(of.read
      ? "sorted runs a look-up may visit. Filters skip nearly all that lack the key; up to 12 is good."
      : "There are no sorted runs yet: what was written is in memory."),
    hits.map(({ cache, hits: found, misses, bytes: size }) => [
      row(`Cache of ${cache}, ${bytes(size)}`, `${percent(found, found + misses)} hits`),
      bar([(100 * found) / (found + misses)])]),
    hits.length ? [] : quiet("The caches were not asked yet."));
  const stored = space.index + space.values;
  const isGood = of.space <= of.goal * 1.25 || space.dead <= 2 * of.floor;
  show("space",
    enough ? big(digits(of.space), isGood ? "good" : "warning") : big("–"),
    say(enough
      ? "bytes on disk for each live one. Collection begins by itself above " +
        `${digits(of.goal)}, if ${bytes(of.floor)} are dead.`
      : "Too little is stored to tell how much space it takes."),
    row("Live", bytes(stored - space.dead)), row("Dead", bytes(space.dead)),
    bar([(100 * (stored - space.dead)) / Math.max(stored, 1)],
      [(100 * space.dead) / Math.max(stored, 1), "dead"]),
    space.limit ? [row("Of the limit", `${bytes(space.used)} of ${bytes(space.limit)}`),
      bar([(100 * space.used) / space.limit])] : [],
    space.disks.map((disk) => row(space.disks.length > 1 ? `Free, ${disk.path}` : "Free",
      bytes(disk.free))));
};

// Parts of the memory that were ever taken: a line that came stays.
const taken = new Set();
const memory = ({ clients, memory: of }) => {
  Object.entries(of.parts).forEach(([name, size]) => size > 0 && taken.add(name));
  const parts = Object.entries(of.parts).filter(([name]) => taken.has(name));
  show("memory",
    big(digits(clients.count)), say(`of at most ${counted(clients.most, "client")} are connected.`),
    row("The process", of.resident === null ? "–" : bytes(of.resident)),
    of.resident === null ? [] : bar([(100 * of.resident) / of.machine]),
    row("The store", `${bytes(sum(parts.map(([, size]) => size)))} of ${bytes(of.limit)}`),
    bar([(100 * sum(parts.map(([, size]) => size))) / of.limit]),
    parts.map(([name, size]) => row(name, bytes(size))));
};

const levels = ({ space, files }) => {
  const most = Math.max(1, ...space.levels.map((level) => level.bytes));
  show("levels", space.levels.length
    ? space.levels.map((level) => [
      row(`Level ${level.level}, ${counted(level.tables, "table")}`, bytes(level.bytes)),
      bar([(100 * level.bytes) / most])])
    : quiet("No tables yet: new keys are in memory and in the log."),
    say(`About ${bytes(space.data)} of keys and values. Of the log ${bytes(space.unflushed)} is not in tables yet.`));
  const list = files.list.filter(({ bytes: size, live }) => size ?? live);
  const top = Math.max(1, ...list.map((file) => file.bytes ?? file.live));
  const column = ({ name, bytes: size, live }) => {
    const whole = size ?? live;
    const inner = h("i");
    const outer = h("i", { title: `${name}: ${size === null ? "in use" : `${bytes(live)} of ${bytes(size)} live`}` }, inner);
    outer.style.height = `${Math.max(2, (100 * whole) / top)}%`;
    inner.style.height = `${(100 * live) / Math.max(whole, 1)}%`;
    return outer;
  };
  const columns = h("div", { className: "columns", role: "img",
    ariaLabel: `Live and dead bytes of ${counted(list.length, "file")}` }, list.map(column));
  columns.style.columnGap = `min(2px, ${25 / list.length}%)`;
  show("files", list.length
    ? [columns,
      h("p", { className: "quiet" }, h("span", { className: "key live" }, "live"), h("span", { className: "key gone" }, "dead"))]
    : quiet("No value files yet: new values are in the log."),
    say(`${counted(files.count, "file")}${files.groups ? `, and ${counted(files.groups, "group")} of values` : ""}; ` +
      `${bytes(space.values)} of logs and values outside the index.` +
      (files.separated_from ? ` Values of ${counted(files.separated_from, "byte")} and more leave the index.` : "")));
};

// Jobs that are shown: so many that the table does not change its height.
const JOBS = 8;
const work = ({ jobs, stalls, decided }) => {
  const state = (job) => {
    if (job.error) return h("span", { className: "tag failed" }, "failed");
    return job.ended ? "" : h("span", { className: "tag" }, "running");
  };
  const waited = stalls.filter((stall) => stall.count > 0);
  show("work",
    jobs.length
      ? h("div", { className: "scroll" }, table("Jobs", ["Job", "", "Read", "Written", "Time", "Why"], jobs.slice(0, JOBS).map((job) => [
        job.job, state(job), bytes(job.bytes), job.ended ? bytes(job.written) : "", span(job.seconds),
        { rest: job.error ?? job.why }]), [2, 3, 4]))
      : quiet("No job has run since the start."),
    say(waited.length
      ? `Writers waited in the last five minutes: ${waited.map((stall) =>
        `for ${stall.cause} ${counted(stall.count, "time")}, ${span(stall.seconds)}`).join("; ")}.`
      : "No writer waited for this work in the last five minutes."),
    say(`Decided by the store: ${decided}.`));
};

const failure = async (answer) => {
  const text = await answer.text();
  try { return new Error(JSON.parse(text).error); } catch { return new Error(text); }
};

const edit = async (database, words) => {
  const body = JSON.stringify({ database, words });
  const headers = { "Content-Type": "application/json", "X-Cleave-Page": "1" };
  const answer = await fetch("/api/edit", { method: "POST", headers, body });
  if (!answer.ok) throw await failure(answer);
};

const people = ({ slow, clients, server }) => {
  show("slow", slow.length
    ? table("Slow commands", ["When", "Time", "Command"], slow.map((call) => [
      moment(new Date(call.at * 1000)), micros(call.micros),
      { rest: h("code", {}, call.args.join(" ")) }]), [1])
    : quiet("No command was slow."));
  const kill = (client) => h("button", {
    className: "plain",
    ariaLabel: `Send ${client.address} away`,
    onclick: ({ target }) => {
      target.blur();
      edit(0, ["client", "kill", "id", String(client.id)]).catch((why) => alert(why.message));
    },
  }, "Send away");
  show("clients", clients.list.length
    ? [table("Clients", ["Address", "Name", "Database", "Connected", "Silent", ""], clients.list.map((client) => [
      client.address, client.name, client.database, span(client.age),
      client.idle === null ? "" : span(client.idle), server.edits ? kill(client) : ""]), [2, 3, 4]),
    clients.list.length < clients.count ? say(`The first ${clients.list.length} of ${digits(clients.count)}.`) : []]
    : quiet("No client is connected."));
};

let server = { databases: 0, edits: false };
const tell = (figures) => {
  const first = server.databases === 0;
  ({ server } = figures);
  at("about").textContent = `${server.version} · ${server.dir} · ${server.preset} · up ${span(server.uptime)}`;
  at("browser").hidden = !server.browses;
  if (first) {
    at("database").append(...Array.from({ length: server.databases }, (_, place) => h("option", {}, String(place))));
    if (server.browses) list();
  }
  [verdict, operations, amplification, memory, levels, work, people].forEach((part) => part(figures));
};

const link = (state, text) => {
  if (at("link").textContent === text) return;
  at("link").className = state;
  at("link").textContent = text;
  document.body.classList.toggle("lost", state === "lost");
};

const watch = () => {
  const live = new EventSource("/api/live");
  let since = null;
  live.onmessage = ({ data }) => {
    since = null;
    link("live", "Live");
    tell(JSON.parse(data));
  };
  live.onerror = () => {
    since ??= new Date().toLocaleTimeString("en-GB");
    link("lost", "Trying again");
    judge("alarm", `The server does not answer since ${since}.`, []);
    at("does").textContent = "What is below was so before.";
    if (live.readyState !== EventSource.CLOSED) return;
    setTimeout(watch, 3000);
    fetch("/api/keys").then(({ status }) => status === 401 && location.assign("/login"), () => {});
  };
};

// The browser of keys: bytes are hexadecimal digits on the way.
const toHex = (text) => [...new TextEncoder().encode(text)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const toBytes = (shown) => (typeof shown === "string"
  ? new TextEncoder().encode(shown)
  : Uint8Array.from(shown.hex.match(/../g) ?? [], (pair) => parseInt(pair, 16)));
const short = (text) => (text.length > 200 ? `${text.slice(0, 200)}…` : text);
const toText = (shown) => (shown?.hex === undefined ? String(shown) : new TextDecoder().decode(toBytes(shown)));
const database = () => Number(at("database").value);

const ask = async (path, query) => {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`);
  if (!answer.ok) throw await failure(answer);
  return answer.json();
};

const list = async (from = "") => {
  try {
    const { keys, next } = await ask("/api/keys", { database: database(), prefix: toHex(at("prefix").value), from });
    at("keys").replaceChildren(...keys.map((key) => h("li", {}, h("button", {
      onclick: ({ currentTarget }) => {
        at("keys").querySelectorAll("[aria-current]").forEach((other) => other.removeAttribute("aria-current"));
        currentTarget.setAttribute("aria-current", "true");
        open(key);
      },
    }, short(key.text) || "(the empty key)"))));
    at("value").replaceChildren(...(keys.length ? [quiet("Choose a key to see its value.")] : []));
    at("pages").replaceChildren(
      ...(from ? [h("button", { className: "plain", onclick: () => list() }, "First page")] : []),
      ...(next ? [h("button", { className: "plain", onclick: () => list(next) }, "Next page")] : []),
      quiet(keys.length ? counted(keys.length, "key") : at("prefix").value ? "No key begins so." : "No keys yet."));
  } catch (why) {
    at("pages").replaceChildren(quiet(why.message));
  }
};

const dump = (content) => {
  const lines = [];
  for (let begin = 0; begin < content.length; begin += 16) {
    const part = [...content.slice(begin, begin + 16)];
    const shown = part.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "."));
    const hex = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    lines.push(`${begin.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${shown.join("")}`);
  }
  return lines.join("\n");
};

const forms = {
  Text: toText,
  JSON: (shown) => {
    try {
      return JSON.stringify(JSON.parse(toText(shown)), null, 2);
    } catch {
      return "This is no JSON.";
    }
  },
  Hex: (shown) => dump(toBytes(shown)),
};

// A string in one of its forms.
const text = (shown) => {
  const place = h("pre", { tabIndex: 0, ariaLabel: "Value" }, forms.Text(shown));
  const buttons = Object.keys(forms).map((name) => h("button", {
    ariaPressed: String(name === "Text"),
    onclick: ({ currentTarget }) => {
      buttons.forEach((button) => { button.ariaPressed = String(button === currentTarget); });
      place.textContent = forms[name](shown);
    },
  }, name));
  return [h("p", { className: "tools" }, buttons), place];
};

// What types of collections are called, and what their elements have.
const KINDS = {
  hash: ["hash", "Field", "Value"],
  list: ["list", "Place", "Value"],
  set: ["set", "Member"],
  stream: ["stream", "Entry", "Fields and values"],
  zset: ["sorted set", "Member", "Score"],
};

const elements = ({ type, rows, len }) => {
  const [, ...heads] = KINDS[type];
  const cells = ([first, ...rest]) => (heads.length === 1 || type === "zset"
    ? [{ rest: toText(first) }, ...rest.map(toText)]
    : [toText(first), { rest: rest.map(toText).join(" ") }]);
  if (!rows.length) return [];
  return [
    h("div", { className: "scroll" }, table("Elements", heads, rows.map(cells), type === "zset" ? [1] : [])),
    ...(rows.length < len ? [quiet(`The first ${rows.length} are shown.`)] : []),
  ];
};

const changes = (key, told) => {
  const run = (...words) => edit(database(), words).then(() => open(key)).catch((why) => alert(why.message));
  const of = { hex: key.key };
  const isWhole = typeof told.value === "string" && toBytes(told.value).length === told.len;
  const area = isWhole ? h("textarea", { value: told.value, ariaLabel: "New value" }) : null;
  const seconds = h("input", { type: "number", min: 1, placeholder: "seconds", ariaLabel: "Seconds to live" });
  return [
    area,
    h("p", { className: "tools" },
      area ? h("button", { onclick: () => run("set", of, area.value, "keepttl") }, "Save") : null,
      seconds,
      h("button", { onclick: () => seconds.value && run("pexpire", of, String(1000 * seconds.value)) }, "Expire after"),
      told.millis_left === null ? null : h("button", { onclick: () => run("persist", of) }, "Never expire"),
      h("button", {
        className: "danger",
        onclick: () => confirm(`Delete ${short(key.text)}?`) && run("del", of).then(() => list()),
      }, "Delete")),
  ];
};

const open = async (key) => {
  const place = at("value");
  try {
    const told = await ask("/api/key", { database: database(), key: key.key });
    if (told.type === "none") return place.replaceChildren(quiet("The key is not there any more."));
    const more = told.type === "string" && told.len > 65536 ? ", of which the first 64 KiB are shown" : "";
    const size = told.type === "string" ? `${bytes(told.len)}${more}` : counted(told.len, "element");
    const life = told.millis_left !== null ? `expires in ${span(told.millis_left / 1000)}` : "does not expire";
    place.replaceChildren(
      h("p", {}, h("b", { className: "mono" }, short(key.text))),
      h("p", { className: "quiet" }, h("span", { className: "tag" }, KINDS[told.type]?.[0] ?? told.type),
        ` ${size}, ${life}`),
      ...(told.type === "string" ? text(told.value) : elements(told)),
      ...(server.edits ? changes(key, told).filter(Boolean) : []));
  } catch (why) {
    place.replaceChildren(quiet(why.message));
  }
};

at("search").addEventListener("submit", (event) => {
  event.preventDefault();
  list();
});
watch();
