// Call paths as a tree, outermost function on top: a box is as wide as what its function and what it called are weighed by.
const FLAME_ROW = 21, LEAST_WIDTH = 3;

/** The same function has the same colour. */
function flameColour(name) {
    let hash = 0;
    for (const character of name) hash = (hash * 31 + character.codePointAt(0)) >>> 0;
    return `hsl(${18 + hash % 38} ${60 + hash % 25}% ${70 + hash % 12}%)`;
}

/** Of paths, each with `frames` (numbers) and its weights, outermost frame first. */
function makeTree(paths, frames, weights, rootName) {
    const node = (name, place, parent) => ({ name, place, parent, children: new Map(), paths: [], ...Object.fromEntries(weights.map(weight => [weight, 0])) });
    const root = node(rootName, null, null);
    const child = (parent, key, { name, place }) => {
        if (!parent.children.has(key)) parent.children.set(key, node(name, place, parent));
        return parent.children.get(key);
    };
    paths.forEach((path, number) => {
        let at = root;
        const add = () => {
            for (const weight of weights) at[weight] += path[weight];
            at.paths.push(number);
        };
        add();
        if (path.frames.length === 0) at = child(at, -1, { name: '(call path unknown)', place: null });
        for (const frame of path.frames) {
            at = child(at, frame, frames[frame]);
            add();
        }
        if (path.frames.length === 0) add();
    });
    return root;
}

class Flame {
    /**
     * `id`: of its element, of the status below (`id-status`) and of the radio buttons (`id-weight`). `units`: how each weight is written, the
     * first one is shown first. `empty`: what to say without anything. `choose`: told which box was enlarged.
     */
    constructor({ id, units, empty, choose }) {
        Object.assign(this, { box: element(id), status: element(`${id}-status`), units, empty, choose, weight: Object.keys(units)[0], root: null, top: null });
        this.box.addEventListener('click', event => { if (event.target.node) this.enter(event.target.node); });
        const tell = event => { this.status.textContent = event.target.node ? this.text(event.target.node) : ''; };
        this.box.addEventListener('pointerover', tell);
        this.box.addEventListener('focusin', tell);
        this.box.addEventListener('keydown', event => this.key(event));
        for (const radio of document.querySelectorAll(`input[name="${id}-weight"]`)) {
            radio.addEventListener('change', () => { this.weight = radio.value; this.draw(); });
        }
    }

    show(paths, frames, rootName) { this.root = this.top = makeTree(paths, frames, Object.keys(this.units), rootName); }

    showAll() { this.top = this.root; this.draw(); }

    text(node) {
        return `${frameText(node)}: ${this.units[this.weight](node[this.weight])}, ${percent(100 * node[this.weight] / Math.max(1, this.root[this.weight]))}`;
    }

    byWeight(node) { return [...node.children.values()].sort((a, b) => b[this.weight] - a[this.weight]); }

    draw() {
        if (!this.root || this.root[this.weight] === 0) {
            this.box.replaceChildren(line('p', this.empty(), 'empty'));
            this.box.style.height = 'auto';
            return;
        }
        const width = this.box.clientWidth;
        const boxes = [], above = [];
        let depths = 0;
        for (let node = this.top.parent; node; node = node.parent) above.unshift(node);
        above.forEach((node, depth) => boxes.push(this.button(node, depth, 0, width, true)));
        const place = (node, depth, left, room) => {
            boxes.push(this.button(node, depth, left, room, false));
            depths = Math.max(depths, depth + 1);
            let x = left;
            for (const child of this.byWeight(node)) {
                const share = room * child[this.weight] / Math.max(1, node[this.weight]);
                if (share >= LEAST_WIDTH) place(child, depth + 1, x, share);
                x += share;
            }
        };
        place(this.top, above.length, 0, width);
        this.box.replaceChildren(...boxes);
        this.box.style.height = `${Math.max(depths, above.length) * FLAME_ROW}px`;
        boxes[above.length].tabIndex = 0;
    }

    button(node, depth, left, width, wide) {
        const button = line('button', node.place ? `${node.name}  ${node.place}` : node.name);
        button.type = 'button';
        button.tabIndex = -1;
        button.setAttribute('role', 'treeitem');
        button.setAttribute('aria-label', this.text(node));
        button.setAttribute('aria-level', depth + 1);
        button.title = this.text(node);
        button.node = node;
        Object.assign(button.style, { left: `${left}px`, top: `${depth * FLAME_ROW}px`, width: `${Math.max(1, width)}px`, background: flameColour(node.name) });
        if (wide) button.classList.add('wide');
        return button;
    }

    /** Enlarges a function. */
    enter(node) {
        this.top = node;
        this.draw();
        this.focus(node);
        this.choose(node, node === this.root);
    }

    focus(node) {
        const button = [...this.box.children].find(button => button.node === node);
        if (!button) return;
        for (const other of this.box.children) other.tabIndex = -1;
        button.tabIndex = 0;
        button.focus({ preventScroll: true });
    }

    key(event) {
        const node = event.target.node;
        if (!node) return;
        const beside = node.parent ? this.byWeight(node.parent) : [node];
        const at = beside.indexOf(node);
        const to = { ArrowDown: this.byWeight(node)[0], ArrowUp: node.parent, ArrowLeft: beside[at - 1], ArrowRight: beside[at + 1] }[event.key];
        if (event.key === 'Escape') this.enter(this.root);
        else if (to) this.focus(to);
        else return;
        event.preventDefault();
    }
}

/** Where the program waited for swap: a box shows only its swap-ins in the pictures. */
const waits = new Flame({
    id: 'flame',
    units: { stall_ns: duration, swap_ins: number => `${count(number)} swap-ins` },
    empty: () => model.has_paths ? 'No waiting was measured.' : 'Call paths of swap-ins were not recorded (sensor call-paths).',
    choose: (node, isAll) => isAll ? setFilter({ paths: null, pathName: '' }) : showPaths(node.paths, node.name),
});

/** Of these call paths, by number in the model, the pictures show the swap-ins. */
function showPaths(numbers, pathName) {
    const unknown = numbers.some(number => model.paths[number].frames.length === 0);
    setFilter({ paths: new Set(unknown ? [...numbers, NO_PATH] : numbers), pathName });
}

/** Where it read and wrote files; `null`: that was not recorded. */
const fileIo = model.io && new Flame({
    id: 'io-flame',
    units: { bytes, latency_ns: duration },
    empty: () => 'No regular file was read or written.',
    choose: () => {},
});
