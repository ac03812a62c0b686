// Curves below the picture, by uPlot; they show the same time, and dragging over one of them changes it for all.
const PARTS = 400;
const NS = 1e9;
const plots = {};
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name);

function axis(label, values, more) {
    return { stroke: css('--soft'), grid: { stroke: css('--line'), width: 1 }, ticks: { stroke: css('--line') }, label, labelSize: 18, values, ...more };
}

const serie = (label, colour, value, more) => ({ label, stroke: css(colour), width: 1.5, value: (plot, v) => v === null ? '-' : value(v), ...more });

/** One plot over time; `y`: its label and how its values are written. */
function plot(id, y, series, data, height = 150) {
    const holder = element(id);
    holder.replaceChildren();
    plots[id]?.destroy();
    const options = {
        width: Math.max(200, holder.clientWidth), height,
        scales: { x: { time: false, range: () => [view.x0 * model.tick_ns / NS, view.x1 * model.tick_ns / NS] }, y: { range: (u, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
        axes: [axis('time, s', null, { size: 36 }), axis(y.label, (u, values) => values.map(y.write), { size: 74, ...(y.steps && { incrs: y.steps }) })],
        series: [{ label: 'time', value: (u, v) => v === null ? '-' : `${v.toFixed(4)} s` }, ...series],
        cursor: { drag: { x: true, y: false, setScale: false } },
        hooks: { setSelect: [u => choose(u)] },
        legend: { live: true },
    };
    plots[id] = new uPlot(options, data, holder);
}

/** What was dragged over becomes the view. */
function choose(u) {
    const { left, width } = u.select;
    if (width < 3) return;
    const [from, to] = [u.posToVal(left, 'x'), u.posToVal(left + width, 'x')];
    u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    setView({ x0: from * NS / model.tick_ns, x1: to * NS / model.tick_ns });
}

function empty(id, text) {
    plots[id]?.destroy();
    delete plots[id];
    element(id).replaceChildren(line('p', text, 'empty'));
}

/** Of the whole recording, before the points are there. */
function ratesOfModel() {
    const { swap_ins: swapIns, evictions, stall_ns: stall } = model.overview;
    return { width: TICKS / model.overview.columns, swapIns, evictions, stall: stall.map(ns => ns / model.tick_ns / model.every) };
}

function drawRates() {
    if (!model.observed) {
        for (const id of ['rates', 'stalls']) empty(id, 'Not recorded (sensor faults).');
        return;
    }
    const rates = selected ? ratesInView(PARTS) : ratesOfModel();
    const parts = rates.swapIns.length, from = selected ? view.x0 : 0;
    const toSeconds = model.tick_ns / NS;
    const x = Array.from({ length: parts }, (_, i) => (from + (i + 0.5) * rates.width) * toSeconds);
    const factor = (selected ? model.every : 1) / (rates.width * toSeconds);
    const perSecond = values => Array.from(values, value => value * factor);
    plot('rates', { label: 'per second', write: count }, [
        serie('swap-ins', '--swap-in', count), serie('evictions', '--eviction', count),
    ], [x, perSecond(rates.swapIns), perSecond(rates.evictions)]);
    drawStalls(x, rates);
    drawLatency(rates.latency);
}

const percent = value => `${value < 10 ? Math.round(value * 10) / 10 : Math.round(value)} %`;

function drawStalls(x, rates) {
    if (!model.has_latency) return empty('stalls', 'Not recorded: the latency of swap-ins needs the sensor faults.');
    const share = Array.from(rates.stall, ticks => 100 * model.every * ticks / rates.width);
    const series = [serie('in swap-ins', '--swap-in', percent)];
    const data = [x, share];
    if (model.reclaim_ns.length > 0) {
        series.push(serie('reclaiming memory outside of them', '--limit', percent));
        const width = model.length_ns / model.reclaim_ns.length;
        data.push(x.map(at => 100 * (model.reclaim_ns[Math.min(model.reclaim_ns.length - 1, Math.floor(at * NS / width))] ?? 0) / width));
    }
    plot('stalls', { label: 'waiting', write: percent }, series, data);
}

/** 0 and powers of ten up to the largest: of many only some, or their labels overlap. */
function decades(most) {
    const powers = Math.floor(Math.log10(Math.max(1, most)));
    const step = Math.max(1, Math.ceil((powers + 1) / 5));
    return [0, ...Array.from({ length: Math.floor(powers / step) + 1 }, (_, number) => 10 ** (powers % step + number * step))];
}

/** Swap-ins by latency; four steps to an octave. */
function drawLatency(codes) {
    if (!codes) return;
    const step = model.latency_steps / 4;
    const counts = new Map();
    let known = 0;
    codes.forEach((number, code) => {
        if (number === 0 || code === 0) return;
        const bucket = Math.round((code - 1) / step);
        counts.set(bucket, (counts.get(bucket) ?? 0) + number * model.every);
        known += number;
    });
    if (known === 0) return empty('latency', model.has_latency ? 'No swap-in of known latency here.' : 'Not recorded.');
    const buckets = [...counts.keys()];
    const [low, high] = [Math.min(...buckets) - 1, Math.max(...buckets) + 2];
    const x = [], y = [];
    for (let bucket = low; bucket <= high; bucket++) {
        x.push(2 ** ((bucket - 0.5) / 4));
        y.push(counts.get(bucket) ?? 0);
    }
    const holder = element('latency');
    holder.replaceChildren();
    plots.latency?.destroy();
    plots.latency = new uPlot({
        width: Math.max(200, holder.clientWidth), height: 170,
        scales: { x: { time: false, distr: 3, log: 10 }, y: { distr: 4, asinh: 1, range: (u, least, most) => [0, Math.max(10, most)] } },
        axes: [axis('latency', (u, values) => values.map(v => v === null ? '' : duration(v)), { size: 36 }), axis('swap-ins', (u, values) => values.map(count), { size: 74, splits: (u, number, least, most) => decades(most) })],
        series: [{ label: 'from', value: (u, v) => v === null ? '-' : duration(v) }, {
            label: 'swap-ins', stroke: css('--swap-in'), fill: `${css('--swap-in').trim()}55`, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false },
            value: (u, v) => v === null ? '-' : count(v),
        }],
        cursor: { drag: { x: false, y: false } },
    }, [x, y], holder);
}

/** Several curves with moments of their own on one axis of time. */
function drawMemory() {
    const { samples, scans, working_set: accessed } = model;
    const tables = [];
    const series = [];
    const curve = (time, values, label, colour, more) => {
        if (!values.some(value => value !== null)) return;
        tables.push([time.map(ns => ns / NS), values]);
        series.push(serie(label, colour, bytes, { spanGaps: true, points: { show: time.length < 40, size: 4 }, ...more }));
    };
    curve(samples.time_ns, samples.resident, 'resident (kernel counters)', '--resident');
    curve(scans.time_ns, scans.resident, 'resident (page tables)', '--resident', { dash: [4, 3] });
    curve(samples.time_ns, samples.swapped, 'in swap (kernel counters)', '--eviction');
    curve(scans.time_ns, scans.swapped, 'in swap (page tables)', '--eviction', { dash: [4, 3] });
    curve(accessed.time_ns, accessed.accessed, 'working set (accessed in an interval)', '--accessed');
    curve(samples.time_ns, samples.limit, 'limit', '--limit', { dash: [8, 4] });
    if (series.length === 0) return empty('memory', 'Not recorded.');
    plot('memory', { label: 'memory', write: bytes, steps: Array.from({ length: 50 }, (_, power) => 2 ** power) }, series, uPlot.join(tables), 190);
}

function drawCurves() {
    drawRates();
    drawMemory();
}

let movedCurves = 0;
/** The axes of time follow the picture, but not with each of its frames. */
function moveCurvesSoon() {
    const now = performance.now();
    if (now - movedCurves < 80) return;
    movedCurves = now;
    moveCurves();
}

function moveCurves() {
    for (const [id, u] of Object.entries(plots)) if (id !== 'latency') u.setScale('x', { min: view.x0 * model.tick_ns / NS, max: view.x1 * model.tick_ns / NS });
}
