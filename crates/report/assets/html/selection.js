// The points that pass the filter, swap-ins and evictions apart, each still in the order of time.
let points = null;
let selected = null;
/** As many points as can be drawn in each frame while the picture moves, of swap-ins and of evictions. */
const SAMPLE = 300000;

function passes() {
    const { band, process, kinds, paths } = filter;
    return i => {
        const kind = points.what[i] % KINDS;
        return kinds[kind]
            && (band === null || (points.what[i] - kind) / KINDS === band)
            && (process === null || points.space[i] === process)
            && (paths === null || (kind !== EVICTION && paths.has(points.path[i])));
    };
}

/** One point in `weight`, scattered, as events often come in turns. */
function sampleOf(time, row) {
    const weight = Math.ceil(time.length / SAMPLE);
    if (weight < 2) return { time, row, weight: 1 };
    const kept = Math.floor(time.length / weight);
    const sample = { time: new Uint32Array(kept), row: new Uint32Array(kept), weight };
    for (let k = 0; k < kept; k++) {
        const i = k * weight + (Math.imul(k, 0x9e3779b1) >>> 8) % weight;
        sample.time[k] = time[i];
        sample.row[k] = row[i];
    }
    return sample;
}

function select() {
    const pass = passes();
    const keep = [new Uint32Array(points.n), new Uint32Array(points.n)];
    const kept = [0, 0];
    for (let i = 0; i < points.n; i++) {
        if (!pass(i)) continue;
        const sort = points.what[i] % KINDS === EVICTION ? 1 : 0;
        keep[sort][kept[sort]++] = i;
    }
    const part = sort => {
        const index = keep[sort].slice(0, kept[sort]);
        const time = new Uint32Array(index.length), row = new Uint32Array(index.length);
        for (let i = 0; i < index.length; i++) {
            time[i] = points.time[index[i]];
            row[i] = points.row[index[i]];
        }
        return { index, time, row, sample: sampleOf(time, row) };
    };
    selected = { ins: part(0), outs: part(1) };
}

/** Where the view's time begins and ends in a part of the selection. */
const span = part => [lowerBound(part.time, Math.floor(view.x0)), lowerBound(part.time, Math.ceil(view.x1))];

/** Events and waiting by equal parts of the view's time; a wait counts in all the parts that it lasted. */
function ratesInView(parts) {
    const width = (view.x1 - view.x0) / parts;
    const swapIns = new Float64Array(parts), evictions = new Float64Array(parts), stall = new Float64Array(parts);
    const latency = new Float64Array(1024);
    const at = time => Math.min(parts - 1, Math.max(0, Math.floor((time - view.x0) / width)));
    const lengths = Float64Array.from({ length: 1024 }, (_, code) => (latencyOf(code) ?? 0) / model.tick_ns);
    const [from, to] = span(selected.ins);
    for (let k = from; k < to; k++) {
        const end = selected.ins.time[k], code = points.latency[selected.ins.index[k]];
        latency[code]++;
        let part = at(end);
        swapIns[part]++;
        let left = lengths[code], inPart = Math.max(0, end - view.x0 - part * width);
        for (; left > inPart && part > 0; inPart = width) {
            stall[part--] += inPart;
            left -= inPart;
        }
        stall[part] += Math.min(left, inPart);
    }
    const [first, last] = span(selected.outs);
    for (let k = first; k < last; k++) evictions[at(selected.outs.time[k])]++;
    return { width, swapIns, evictions, stall, latency };
}
