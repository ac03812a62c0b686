// What the file holds: `model` (JSON), and the points, which are unpacked later.
const element = id => document.getElementById(id);
const model = JSON.parse(element('model').textContent);
const SWAP_IN = 0, CACHE_HIT = 1, EVICTION = 2, KINDS = 3;
const NO_PATH = 0xffff, OTHER_PATH = 0xfffe;
/** Length of the recording in ticks, the unit of time of the points. */
const TICKS = model.length_ns / model.tick_ns;

function fromBase64(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const binary = atob(text);
    const result = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) result[i] = binary.charCodeAt(i);
    return result;
}

async function unpack(text) {
    const stream = new Blob([fromBase64(text)]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}

function column(name) {
    const holder = element(`column-${name}`);
    const text = holder.textContent;
    holder.remove(); // the text is as large as the file
    return unpack(text);
}

/** Reads varints (LEB128) one after the other. */
class Varints {
    constructor(data) { this.data = data; this.at = 0; }
    next() {
        const data = this.data;
        let byte = data[this.at++], value = byte & 0x7f;
        for (let factor = 128; byte & 0x80; factor *= 128) {
            byte = data[this.at++];
            value += (byte & 0x7f) * factor;
        }
        return value;
    }
    signed() {
        const value = this.next();
        return value % 2 ? -(value + 1) / 2 : value / 2;
    }
}

/** Columns of all points by index, in the order of time; `row` counts from the top of the vertical axis. */
async function readPoints() {
    const names = ['time', 'what', 'row', 'space', 'latency', 'path'];
    const [time, what, row, space, latency, path] = await Promise.all(names.map(column));
    const n = what.length;
    const points = {
        n, what, space,
        time: new Uint32Array(n), row: new Uint32Array(n), latency: new Uint16Array(n), path: new Uint16Array(n).fill(NO_PATH),
    };
    readTimes(time, points.time);
    readRows(row, what, points.row);
    const swapIns = latency.length / 2;
    for (let i = 0, at = 0; i < n; i++) {
        if (what[i] % KINDS === EVICTION) continue;
        points.latency[i] = latency[at] | latency[swapIns + at] << 8;
        points.path[i] = path[at] | path[swapIns + at] << 8;
        at++;
    }
    return points;
}

function readTimes(data, times) {
    const numbers = new Varints(data);
    for (let i = 0, tick = 0; i < times.length; i++) {
        tick += numbers.next();
        times[i] = tick;
    }
}

function readRows(data, what, rows) {
    const numbers = new Varints(data);
    const last = new Float64Array(2 * model.bands.length);
    for (let i = 0; i < rows.length; i++) {
        const band = Math.floor(what[i] / KINDS);
        const sort = 2 * band + (what[i] % KINDS === EVICTION ? 1 : 0);
        last[sort] += numbers.signed();
        const { start, scale } = model.bands[band];
        rows[i] = start + last[sort] * scale + (scale >> 1);
    }
}

/** Address ranges of each band: `offsets` (pages of the band before it), `pages` (its address), `spaces`. */
const readSegments = () => Promise.all(model.bands.map(async band => {
    const numbers = new Varints(await unpack(band.segment_data));
    const [offsets, pages, spaces] = [0, 1, 2].map(() => new Float64Array(band.segments));
    for (let i = 0; i < band.segments; i++) {
        offsets[i] = numbers.next() + (i ? offsets[i - 1] : 0);
        pages[i] = numbers.signed() + (i ? pages[i - 1] : 0);
        spaces[i] = numbers.next();
    }
    band.ranges = { offsets, pages, spaces };
}));

/** The first index from `from` to `to` whose value is not below `value`. */
function lowerBound(values, value, from = 0, to = values.length) {
    while (from < to) {
        const middle = (from + to) >>> 1;
        if (values[middle] < value) from = middle + 1; else to = middle;
    }
    return from;
}

/** A latency in ns from its code; null if it is not known. */
const latencyOf = code => code === 0 ? null : 2 ** ((code - 1) / model.latency_steps);

/** The address of a row's page in a band; of a band whose rows hold several pages, the first one's. */
function addressOf(band, row) {
    const page = Math.floor((row - band.start) / band.scale) * 2 ** band.shift;
    const { offsets, pages } = band.ranges;
    const segment = Math.max(0, lowerBound(offsets, page + 1) - 1);
    return { page, address: (pages[segment] + page - offsets[segment]) * model.page_bytes };
}
