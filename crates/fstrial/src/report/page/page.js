/**
 * @file Draws the figures of a report. The page's text is complete without this script: it only fills the
 * `figure.plot` placeholders, from the JSON in `#data`, when they come into view.
 *
 * - Nothing here makes HTML from text: elements are built one by one, and text is set as text. Names of arms, titles
 *   and reasons come from files of strangers.
 * - Every axis is linear to ECharts: `valueAxis` maps values (logarithms, units, percentiles) and makes the ticks, so
 *   that all scales look and behave alike.
 * - A plot is an entry of `PLOTS`: `view` gives what is drawn as data (axes, marks in values, what the pointer tells), which
 *   `chartOption` draws; `table` gives the same as rows, for people and for CSV.
 */
'use strict';

(() => {
  // ---------------------------------------------------------------- the data

  const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);
  const isPositive = (value) => isNumber(value) && value > 0;
  const NBSP = '\u00a0';
  const FONT =
    'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", ' +
    'Arial, sans-serif';
  /** Most rows a table shows; the CSV always has all. */
  const MOST_ROWS = 400;
  /** Bands of more arms than this hide each other, so only error bars or lines are drawn. */
  const MOST_BANDS = 5;

  /**
   * Text for a drawing or a sentence: marks that turn the direction of writing or break lines would reach beyond the
   * name they are in. Tables and files have names as they are.
   */
  const plainText = (text) =>
    String(text)
      .replace(/[\u202a-\u202e\u2066-\u2069]/g, '')
      .replace(/\p{Cc}+/gu, ' ');

  // Only now it is sure that pictures are drawn: see the style sheet.
  document.documentElement.classList.add('scripted');

  const root = JSON.parse(document.getElementById('data').textContent);
  const trials = root.trials || [];
  /** Units as people are shown them, where the data has longer names. */
  const SHOWN_UNITS = new Map([
    ['bytes/s', 'B/s'],
    ['bytes', 'B'],
  ]);
  for (const section of trials.flatMap((trial) => trial.sections)) {
    section.unit = SHOWN_UNITS.get(section.unit) || section.unit;
  }

  /** Number of each arm's name over the whole page: the same name has the same looks in every trial. */
  const styleOfName = new Map();
  for (const trial of trials) {
    for (const name of trial.arms) {
      if (!styleOfName.has(plainText(name))) styleOfName.set(plainText(name), styleOfName.size);
    }
  }
  const numberOfName = (name) => styleOfName.get(plainText(name)) || 0;
  /** Arms that are hidden, one set of indices for each trial. */
  const hiddenArms = trials.map(() => new Set());
  /** The level chosen for all figures of a section, by section. */
  const chosenLevel = new Map();

  // ---------------------------------------------------------------- words and units

  /**
   * @param {number} value
   * @param {number} digits significant digits
   * @returns {string} without exponent
   */
  function significant(value, digits = 3) {
    if (!isNumber(value)) return '–';
    if (value === 0) return '0';
    const magnitude = Math.floor(Math.log10(Math.abs(value)));
    const decimals = Math.min(Math.max(digits - 1 - magnitude, 0), 12);
    return value.toFixed(decimals).replace('-', '−');
  }

  const powers = (base, labels) => labels.map((label, power) => [base ** power, label]);
  const DECIMAL = powers(1000, ['', 'k', 'M', 'G', 'T']);
  const BINARY = powers(1024, ['', 'Ki', 'Mi', 'Gi', 'Ti']);
  const TIME = powers(1000, ['ns', 'µs', 'ms', 's']);
  const NANOSECONDS = new Map(Object.entries({ ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9 }));

  /**
   * How numbers of a unit are written.
   * @param {string} unit as in the data
   * @returns {{factor: number, steps: Array, binary: boolean}} `factor` to the unit of the steps
   */
  function quantity(unit) {
    if (NANOSECONDS.has(unit)) return { factor: NANOSECONDS.get(unit), steps: TIME, binary: false };
    // Other programs' units have prefixes of their own, or are points of some scale.
    if (!/^([a-z]*\/s|tps|B|)$/.test(unit) && unit !== 'B/s') return { factor: 1, steps: [[1, unit]], binary: false };
    const binary = unit === 'B' || unit === 'B/s';
    const steps = (binary ? BINARY : DECIMAL).map(([size, prefix]) => [
      size,
      binary ? prefix + unit : [prefix, unit].filter(Boolean).join(NBSP),
    ]);
    return { factor: 1, steps, binary };
  }

  /** The greatest step that is not above `value`, as [size, label]. */
  function stepFor(value, steps) {
    const fitting = steps.filter(([size]) => Math.abs(value) >= size * 0.9995);
    return fitting.length ? fitting[fitting.length - 1] : steps[0];
  }

  const withLabel = (text, label) => text + (label === '' || label.startsWith(NBSP) ? '' : NBSP) + label;

  /** A number with its unit, for people. */
  function human(value, unit, digits = 3) {
    if (!isNumber(value)) return '–';
    const { factor, steps } = quantity(unit);
    const [size, label] = stepFor(value * factor, steps);
    return withLabel(significant((value * factor) / size, digits), label);
  }

  /** A number and its interval: `12.3 k op/s [12.1 k op/s, 12.5 k op/s]` with the unit said once. */
  function withInterval(value, interval, unit) {
    if (!isNumber(value)) return '–';
    if (!interval || !interval.every(isNumber)) return human(value, unit, 4);
    const { factor, steps } = quantity(unit);
    const [size, label] = stepFor(value * factor, steps);
    const [middle, low, high] = [value, ...interval].map((each) => significant((each * factor) / size, 4));
    return `${middle} [${low}, ${high}]${NBSP}${label}`.trim();
  }

  const ratioText = (value) =>
    isNumber(value) ? (value >= 0.1 && value < 10 ? value.toFixed(3) : significant(value)) : '–';
  const percentText = (share, digits = 4) => `${Number((share * 100).toPrecision(digits))}${NBSP}%`;
  const threadsText = (threads) => `${threads} ${threads === 1 ? 'thread' : 'threads'}`;

  const metricOf = (name) => (root.metrics || {})[name] || {};
  const metricText = (name) => metricOf(name).words || String(name);

  /** 0.999 → `p99.9`, 1 → `max`. */
  function quantileText(quantile) {
    return quantile >= 1 ? 'max' : `p${Number((quantile * 100).toFixed(6))}`;
  }

  /** A list in words: `a, b and c`. */
  function listText(parts) {
    if (parts.length < 2) return parts.join('');
    return `${parts.slice(0, -1).join(', ')} and ${parts[parts.length - 1]}`;
  }

  /** Cuts a name that is too long for a drawing; the tables have it whole. */
  function shorten(text, most) {
    const characters = [...plainText(text)];
    return characters.length <= most ? characters.join('') : `${characters.slice(0, most - 1).join('')}…`;
  }

  // ---------------------------------------------------------------- elements

  const SVG = 'http://www.w3.org/2000/svg';

  /**
   * Makes an element. Children are nodes or text, which stays text.
   * @param {string} tag `svg:` before it for an element of a drawing
   * @param {Object} attributes
   */
  function make(tag, attributes = {}, ...children) {
    const element = tag.startsWith('svg:') ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === 'function') element.addEventListener(name, value);
      else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  // ---------------------------------------------------------------- looks

  // After Okabe and Ito. Against the ground the contrast is at least 3 : 1, and any two differ by a ΔE*ab of at least 11
  // for normal sight, protanopia and deuteranopia (Machado's matrices).
  const COLOURS = {
    light: '#0072b2 #d55e00 #007a5a #8f2d78 #978040 #2f2f2f #3b9cc4 #673805 #7a5cf0 #737f95'.split(' '),
    dark: '#56b4e9 #ff8a3d #5fe0b8 #c56ba0 #f5e06a #f4f4f4 #a9c7d6 #9c7350 #8f7dff #a8a39a'.split(' '),
  };
  const DASHES = ['solid', [7, 3], [2, 2], [9, 3, 2, 3], [5, 2], 'solid', [2, 4], [9, 3, 2, 3, 2, 3], [12, 3], [4, 4]];
  // In a box of 10 × 10. Shapes, because colour alone tells nothing to some and in grey print to all.
  const SHAPES = [
    'M0 5A5 5 0 1 0 10 5A5 5 0 1 0 0 5Z',
    'M0.5 0.5H9.5V9.5H0.5Z',
    'M5 0L10 9.5H0Z',
    'M5 0L10 5L5 10L0 5Z',
    'M0 0.5H10L5 10Z',
    'M3.5 0H6.5V3.5H10V6.5H6.5V10H3.5V6.5H0V3.5H3.5Z',
    'M2 0L5 3L8 0L10 2L7 5L10 8L8 10L5 7L2 10L0 8L3 5L0 2Z',
    'M5 0L6.5 3.5L10 3.8L7.4 6.2L8.2 10L5 8L1.8 10L2.6 6.2L0 3.8L3.5 3.5Z',
    'M2.5 0.5H7.5L10 5L7.5 9.5H2.5L0 5Z',
    'M0 3H10V7H0Z',
  ];
  const shapeName = (shape) => `sign-of-arm-${SHAPES.indexOf(shape)}`;
  SHAPES.forEach((shape) => echarts.graphic.registerShape(shapeName(shape), echarts.graphic.extendPath(shape, {})));
  const THEMES = {
    light: { ink: '#1c1f22', soft: '#5a6169', line: '#c9ced3', faint: '#e9ebed', ground: '#ffffff', accent: '#0b5394' },
    dark: { ink: '#e6e8ea', soft: '#a4acb4', line: '#4a525a', faint: '#2a3037', ground: '#15191d', accent: '#7db8ee' },
  };
  const darkScreen = window.matchMedia('(prefers-color-scheme: dark)');
  let printing = false;
  const screenTheme = () => (darkScreen.matches && !printing ? THEMES.dark : THEMES.light);

  /** Colour, shape and dashes of an arm, by its name. */
  function looks(name, theme) {
    const number = numberOfName(name);
    const turn = Math.floor(number / 10);
    return {
      colour: COLOURS[theme === THEMES.dark ? 'dark' : 'light'][number % 10],
      shape: SHAPES[(number + turn) % 10],
      dash: DASHES[(number + 3 * turn) % 10],
    };
  }

  /** The sign of an arm as a small drawing, for legends and tooltips. */
  function swatch(name, theme) {
    const { colour, shape, dash } = looks(name, theme);
    return make(
      'svg:svg',
      { class: 'swatch', viewBox: '0 0 28 10', width: 28, height: 10, 'aria-hidden': 'true' },
      make('svg:path', {
        d: 'M0 5H28',
        stroke: colour,
        'stroke-width': 2,
        fill: 'none',
        'stroke-dasharray': Array.isArray(dash) ? dash.join(' ') : undefined,
      }),
      make('svg:path', { d: shape, fill: colour, transform: 'translate(9 0)' }),
    );
  }

  // ---------------------------------------------------------------- axes

  /** Round numbers from `low` to `high`, about `count` of them. */
  function roundTicks(low, high, count) {
    const raw = (high - low) / Math.max(count, 1);
    if (!(raw > 0)) return [low];
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= raw * 0.999);
    const ticks = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) ticks.push(at * step);
    return ticks;
  }

  /** Ticks for a logarithmic scale: powers, with 2 and 5 between them where there is room. */
  function logTicks(low, high, binary, most = 7) {
    const base = binary ? 2 : 10;
    const from = Math.floor(Math.log(low) / Math.log(base));
    const to = Math.ceil(Math.log(high) / Math.log(base));
    const between = (parts, stride) => {
      const ticks = [];
      for (let power = Math.ceil(from / stride) * stride; power <= to; power += stride) {
        ticks.push(...parts.map((part) => part * base ** power));
      }
      return ticks.filter((tick) => tick >= low * 0.9999 && tick <= high * 1.0001);
    };
    const dense = binary ? [] : [between([1, 2, 5], 1), between([1, 3], 1)];
    const sparse = [1, 2, 3, 4, 6, 10].map((stride) => between([1], stride));
    const ticks = [...dense, ...sparse].find((each) => each.length <= most) || [];
    return ticks.length > 2 ? ticks : roundTicks(low, high, 4);
  }

  const asIs = (value) => value;

  /**
   * An axis with the given ends, ticks and text of a tick, in positions.
   * @param {Object} more `map` and `unmap` from and to values where these are no positions; else parts of the option
   * @returns {{map: function(number): ?number, unmap: function(number): number, option: Object}}
   */
  function makeAxis(min, max, ticks, text, name, { map = asIs, unmap = asIs, ...more } = {}) {
    const tick = { customValues: ticks };
    const option = { type: 'value', min, max, name, axisTick: tick, axisLabel: { ...tick, formatter: text }, ...more };
    return { map, unmap, option };
  }

  /**
   * An axis for values of one unit.
   * @param {number[]} values all that must fit on it
   * @param {{unit: string, log?: boolean, zero?: boolean, name?: string, count?: number, pad?: number}} wish `zero`:
   *   begins at zero unless logarithmic; `count`: about so many ticks; `pad`: share of the range to leave free
   */
  function valueAxis(values, { unit = '', log, zero, name = '', count = 0, pad = 0.06 }) {
    const { factor, steps, binary } = quantity(unit);
    const fitting = values.filter(log ? isPositive : isNumber);
    const known = (fitting.length ? fitting : [1]).map((value) => value * factor);
    let low = known.reduce((least, value) => Math.min(least, value));
    let high = known.reduce((most, value) => Math.max(most, value));
    if (log) {
      const room = Math.max((high / low) ** 0.05, 1.02);
      [low, high] = [low / room, high * room];
      const ticks = logTicks(low, high, binary, count ? count + 1 : 7).map(Math.log10);
      const text = (position) => {
        const [size, label] = stepFor(10 ** position, steps);
        return withLabel(String(Number((10 ** position / size).toPrecision(4))), label);
      };
      return makeAxis(Math.log10(low), Math.log10(high), ticks, text, name, {
        map: (value) => (isPositive(value) ? Math.log10(value * factor) : null),
        unmap: (position) => 10 ** position / factor,
      });
    }
    if (zero) low = Math.min(low, 0);
    const room = (high - low || Math.abs(high) || 1) * pad;
    high += room;
    if (!zero) low -= room;
    const [size, label] = stepFor(Math.max(Math.abs(low), Math.abs(high)), steps);
    const title = [name, label.trim()].filter(Boolean).join(', ');
    return makeAxis(low / size, high / size, roundTicks(low / size, high / size, count || 5), tickText, title, {
      map: (value) => (isNumber(value) ? (value * factor) / size : null),
      unmap: (position) => (position * size) / factor,
    });
  }

  const tickText = (tick) => String(Number(tick.toPrecision(6))).replace('-', '−');

  /** Threads, evenly spaced for each doubling. */
  function levelAxis(levels) {
    const map = (level) => Math.log2(Math.max(level, 0.5));
    const ends = levels.map(map);
    const room = ends.length > 1 ? (ends[ends.length - 1] - ends[0]) * 0.06 : 1;
    const text = (position) => String(Math.round(2 ** position));
    return makeAxis(Math.min(...ends) - room, Math.max(...ends) + room, ends, text, 'threads', {
      map,
      unmap: (position) => nearest(levels, position, map),
    });
  }

  /** Names at 0, 1, 2 … */
  function stepAxis(names, title, more = {}) {
    const last = names.length - 1;
    return makeAxis(-0.5, last + 0.5, [...names.keys()], (index) => names[index], title, {
      unmap: (position) => Math.min(Math.max(Math.round(position), 0), last),
      ...more,
    });
  }

  /** A name in lines of at most so many characters, broken at spaces where it has any. */
  function wrapped(text, most) {
    const lines = [''];
    for (const word of plainText(text).split(/(?<= )/)) {
      const letters = [...word];
      if ([...lines[lines.length - 1]].length + [...word.trimEnd()].length > most) lines.push('');
      while (letters.length > most) lines.splice(lines.length - 1, 0, letters.splice(0, most).join(''));
      lines[lines.length - 1] += letters.join('');
    }
    const whole = lines.map((line) => line.trim()).filter(Boolean);
    // More than that is a name that somebody made to be long.
    return whole.length <= 6 ? whole : [...whole.slice(0, 5), `${whole[5].slice(0, -1)}…`];
  }

  const rowLines = (row, { width }) => wrapped(row.label, width < 480 ? 16 : 34);
  /** Room for the labels of rows, one below the other. */
  const rowsHeight = (rows, context, least) =>
    rows.length * Math.max(least, ...rows.map((row) => rowLines(row, context).length * 15 + 8));

  /** A row for each of `rows`, with its label. */
  function rowAxis(rows, context) {
    const { theme } = context;
    const formatter = (index) => (rows[index] ? rowLines(rows[index], context).join('\n') : '');
    const axisLabel = { interval: 0, formatter, color: theme.ink, lineHeight: 15 };
    const option = { type: 'category', inverse: true, data: rows.map((_, index) => String(index)), axisLabel };
    return { map: asIs, unmap: Number, option };
  }

  /** The axis with what lies beyond it at its ends. */
  const clipped = ({ map, option: { min, max } }) => ({
    map: (value) => (map(value) === null ? null : Math.min(Math.max(map(value), min), max)),
  });

  /** The candidate whose position is nearest to `position`. */
  function nearest(candidates, position, positionOf) {
    return candidates.reduce(
      (best, each) => (Math.abs(positionOf(each) - position) < Math.abs(positionOf(best) - position) ? each : best),
      candidates[0],
    );
  }

  /** Where a quantile lies on a scale of nines: each further nine takes the same room, the maximum the last place. */
  const ninesOf = (quantile) => (quantile >= 1 ? 5 : -Math.log10(1 - quantile));
  const QUANTILES = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1];
  const quantileAt = (position) => nearest(QUANTILES, position, ninesOf);

  // ---------------------------------------------------------------- what is drawn

  const segment = ([x1, y1], [x2, y2], style) => ({ type: 'line', silent: true, shape: { x1, y1, x2, y2 }, style });
  const block = (x, y, width, height, style) => ({ type: 'rect', silent: true, shape: { x, y, width, height }, style });
  const words = (x, y, text, size, style) => ({
    type: 'text',
    silent: true,
    x,
    y,
    style: { text, font: `${size}px ${FONT}`, ...style },
  });

  /** A mark that is not for the pointer: `shapes` of a point, given what turns positions into pixels. */
  const silent = (z, points, shapes) => ({
    type: 'custom',
    silent: true,
    animation: false,
    tooltip: { show: false },
    z,
    data: points,
    renderItem: ({ dataIndex }, { coord }) => ({
      type: 'group',
      children: shapes((point) => coord(point), points[dataIndex], dataIndex),
    }),
  });

  /** The stretches of points of which all is known. */
  function stretches(points) {
    const found = [[]];
    for (const point of points) {
      if (point.every(isNumber)) found[found.length - 1].push(point);
      else if (found[found.length - 1].length) found.push([]);
    }
    return found.filter((stretch) => stretch.length > 1);
  }

  const STILL = { animation: false, emphasis: { disabled: true } };

  /**
   * Marks, as series of ECharts. Their points are positions; `looks` are the arm's, if the mark is of an arm; `more` is
   * taken over into the series.
   */
  const KINDS = {
    /** The area between two lines. Points are [x, low, high]. */
    band: ({ points, colour, opacity = 0.1 }) =>
      stretches(points).map((stretch) =>
        silent(1, [stretch[0].slice(0, 2)], (pixel) => {
          const [low, high] = [1, 2].map((end) => stretch.map((point) => pixel([point[0], point[end]])));
          const shape = { points: [...low, ...high.reverse()] };
          return [{ type: 'polygon', silent: true, shape, style: { fill: colour, opacity } }];
        }),
      ),

    /** Error bars. Points are [x, low, high], or [y, low, high] if `lying`. */
    errors({ points, colour, lying }) {
      const whole = points.filter((point) => point.every(isNumber));
      const ends = whole.map(([at, ...range]) => range.map((end) => (lying ? [end, at] : [at, end])));
      const [across, along] = lying ? [0, 3] : [3, 0];
      const stroke = (from, to) => segment(from, to, { stroke: colour, lineWidth: 1.25 });
      const starts = ends.map(([from]) => from);
      return silent(2, starts, (pixel, _, index) => {
        const [from, to] = ends[index].map(pixel);
        const caps = [from, to].map(([x, y]) => stroke([x - across, y - along], [x + across, y + along]));
        return [stroke(from, to), ...caps];
      });
    },

    /** A shaded rectangle between two corners, with a word in its upper left one. */
    shade: ({ points: [from, to], word = '', theme }) =>
      silent(0, [from], (pixel) => {
        const [[left, bottom], [right, top]] = [pixel(from), pixel(to)];
        const area = block(left, top, right - left, bottom - top, { fill: theme.soft, opacity: 0.13 });
        return [area, words(left + 4, top + 4, word, 11, { fill: theme.soft })];
      }),

    /** A straight line between two points. */
    rule: ({ points: [from, to], theme }) =>
      silent(1, [from], (pixel) => [segment(pixel(from), pixel(to), { stroke: theme.soft, lineWidth: 1 })]),

    /** Pale bars of some pixels that stand on the axis. */
    bars: ({ points, colour, pixels, y }) =>
      silent(
        2,
        points.filter((point) => point[1] !== null),
        (pixel, point) => {
          const [[middle, top], [, bottom]] = [pixel(point), pixel([0, y.option.min])];
          return [block(middle - pixels / 2, top, pixels, bottom - top, { fill: colour, opacity: 0.45 })];
        },
      ),

    /** Pale bars that lie, one in each row, with a colour each. Points are [x, row]. */
    rows: ({ points, colours, x: { option } }) => ({
      type: 'bar',
      name: 'then',
      ...STILL,
      barMaxWidth: 14,
      data: points.map(([value], index) => ({
        value: value === null ? option.min : Math.max(value, option.min),
        itemStyle: { color: colours[index], opacity: 0.4 },
      })),
    }),

    /**
     * A line of an arm, interrupted where y is null. With many points its shape is put on a few of them, at other places
     * for each arm.
     */
    line({ name, points, looks: { colour, shape, dash }, more }) {
      const few = points.length <= 16;
      const stride = Math.ceil(points.length / 6);
      const offset = few ? 0 : Math.floor(((numberOfName(name) % 5) / 5) * stride);
      return {
        type: 'line',
        name,
        z: 3,
        ...STILL,
        symbol: `path://${shape}`,
        data: points.map((point, index) => ({ value: point, symbolSize: few || index % stride === offset ? 8 : 0 })),
        showAllSymbol: true,
        connectNulls: false,
        lineStyle: { color: colour, width: 1.75, type: dash },
        itemStyle: { color: colour },
        ...more,
      };
    },

    /** Shapes of an arm at points. */
    dots: ({ name, points, looks: { colour, shape }, more }) => ({
      type: 'scatter',
      name,
      z: 4,
      ...STILL,
      symbol: `path://${shape}`,
      symbolSize: 9,
      data: points,
      itemStyle: { color: colour, opacity: 1 },
      ...more,
    }),
  };

  /**
   * Text of a tooltip: a heading and rows of [arm or null, label, figure].
   * @returns {HTMLElement}
   */
  function tipBox([heading, rows], theme) {
    const body = rows.map(([arm, label, figure]) =>
      make(
        'tr',
        {},
        make('td', {}, arm === null ? '' : swatch(arm, theme)),
        make('th', { scope: 'row', dir: 'auto' }, shorten(label, 48)),
        make('td', { class: 'number' }, figure),
      ),
    );
    const table = make('table', {}, make('tbody', {}, ...body));
    return make('div', { class: 'tip' }, make('p', { dir: 'auto' }, shorten(heading, 90)), table);
  }

  /** The series of a view's marks. */
  function seriesOf({ x, y, marks }, theme) {
    return marks.flatMap((mark) => {
      const upright = mark.y || y;
      const [first, rest] = mark.lying ? [upright, x] : [x, upright];
      const own = looks(mark.name, theme);
      return KINDS[mark.kind]({
        colour: own.colour,
        looks: own,
        ...mark,
        points: mark.points.map(([at, ...values]) => [first.map(at), ...values.map((value) => rest.map(value))]),
        theme,
        x,
        y: upright,
      });
    });
  }

  /**
   * The whole option of a chart.
   * @param {Object} context of the figure
   * @param {{x: Object, y: Object, right?: Object, marks: Object[], tip: function, pointer?: string}} view axes; marks of
   *   a kind in `KINDS` with points in values, on an axis `y` of their own if they have one; `tip(value)` gives the
   *   heading and rows of the tooltip at a value of the axis that `pointer` names
   */
  function chartOption(context, view) {
    const { theme } = context;
    const { x, y, right, tip, pointer = 'x' } = view;
    const uprights = [y, right].filter(Boolean).map(({ option }) => dressAxis(option, theme, 'y'));
    const inExport = context.exporting ? exportParts({ ...context, ...view }) : { top: 0 };
    return {
      animation: false,
      backgroundColor: context.exporting ? theme.ground : 'transparent',
      textStyle: { fontFamily: FONT, color: theme.ink, fontSize: 12 },
      aria: { enabled: false },
      grid: {
        left: 6,
        right: context.exporting ? 24 : 14,
        top: inExport.top + (uprights.some((axis) => axis.name) ? 28 : 10),
        bottom: context.exporting ? 34 : 26,
        outerBoundsMode: 'same',
        outerBoundsContain: 'axisLabel',
      },
      xAxis: dressAxis(x.option, theme, 'x'),
      yAxis: uprights,
      tooltip: {
        trigger: 'axis',
        confine: true,
        transitionDuration: 0,
        axisPointer: {
          type: y.option.type === 'category' ? 'shadow' : 'line',
          axis: pointer,
          snap: false,
          animation: false,
          lineStyle: { color: theme.soft, type: [2, 2] },
          shadowStyle: { color: theme.soft, opacity: 0.1 },
          label: { show: false },
        },
        formatter: (params) => {
          const [first] = [params].flat();
          return first ? tipBox(tip({ x, y }[pointer].unmap(first.axisValue)), theme) : '';
        },
        backgroundColor: theme.ground,
        borderColor: theme.line,
        borderWidth: 1,
        padding: [6, 10],
        extraCssText: 'border-radius:3px;box-shadow:0 2px 8px rgb(0 0 0/18%);',
        textStyle: { color: theme.ink, fontSize: 12, fontFamily: FONT },
      },
      ...inExport.option,
      series: seriesOf(view, theme),
    };
  }

  function dressAxis(axis, theme, side) {
    const below = side === 'x';
    const align = below ? 'center' : axis.position || 'left';
    const lineStyle = { color: theme.line };
    return {
      nameLocation: below ? 'middle' : 'end',
      nameGap: below ? 24 : 10,
      splitNumber: 5,
      nameTextStyle: { color: theme.soft, fontSize: 12, align, padding: 0 },
      ...axis,
      axisLine: { show: below, lineStyle, onZero: false },
      axisTick: { ...axis.axisTick, show: below, lineStyle },
      splitLine: { show: axis.splitLine !== false && axis.type !== 'category', lineStyle: { color: theme.faint } },
      axisLabel: { color: theme.soft, fontSize: 12, hideOverlap: below, ...axis.axisLabel },
    };
  }

  /** What a drawing of its own needs that the page says around it: a title, and which arm is which. */
  function exportParts({ theme, trial, arms, legend, heading, subheading, about }) {
    const names = legend === false ? [] : arms.map((arm) => trial.arms[arm]);
    const graphic = names.flatMap((name, index) => {
      const { colour, shape, dash } = looks(name, theme);
      const [left, top] = [16 + (index % 4) * 210, 58 + Math.floor(index / 4) * 20];
      const style = { stroke: colour, lineWidth: 2, lineDash: Array.isArray(dash) ? dash : null };
      return [
        segment([left, top + 6], [left + 28, top + 6], style),
        { type: shapeName(shape), silent: true, x: left + 9, y: top + 1, style: { fill: colour } },
        words(left + 34, top + 7, shorten(name, 24), 12, { textVerticalAlign: 'middle', fill: theme.ink }),
      ];
    });
    return {
      top: 58 + Math.ceil(names.length / 4) * 20,
      option: {
        title: {
          text: shorten(heading, 100),
          subtext: shorten([about, subheading].filter(Boolean).join(' · '), 130),
          left: 11,
          top: 10,
          itemGap: 8,
          textStyle: { color: theme.ink, fontSize: 15, fontWeight: 600, fontFamily: FONT },
          subtextStyle: { color: theme.soft, fontSize: 12, fontFamily: FONT },
        },
        graphic,
      },
    };
  }

  // ---------------------------------------------------------------- plots

  const nameOf = (context, arm) => plainText(context.trial.arms[arm]);
  const cellOf = (section, arm, threads) => section.cells.find((cell) => cell.arm === arm && cell.threads === threads);

  /** The arms to draw at a level for which `has` finds something in their cell. */
  function cellsWith(context, level, has) {
    return context.arms
      .map((arm) => ({ arm, name: nameOf(context, arm), cell: cellOf(context.section, arm, level) }))
      .filter(({ cell }) => cell && !cell.cannot)
      .map((each) => ({ ...each, found: has(each.cell, context) }))
      .filter(({ found }) => (Array.isArray(found) ? found.length > 0 : found !== undefined && found !== null));
  }

  /** The view of a plot that shows one level, if `has` finds something in any cell. */
  const ofLevel = (has, view) => (context) => {
    const cells = cellsWith(context, context.level, has);
    return cells.length ? view(context, cells) : null;
  };

  /** How far an arm is from the middle of all, in places. */
  const besideMiddle = (context, arm) => context.arms.indexOf(arm) - (context.arms.length - 1) / 2;

  /** Arms with a figure each for a sentence: `xfs 1.2, ext4 1.4`. */
  const inOrder = (entries, unit) =>
    entries.map(([name, value]) => `${shorten(name, 80)} ${human(value, unit)}`).join(', ');
  const leastFirst = (entries) => entries.sort((a, b) => a[1] - b[1]);
  const tipRows = (cells, figure) => cells.map((each) => [each.name, each.name, figure(each.cell, each.found)]);

  const rowsOf = (context, levels, perCell) =>
    levels.flatMap((threads) =>
      context.allArms.flatMap((arm) => {
        const cell = cellOf(context.section, arm, threads);
        return cell ? perCell(cell).map((row) => [context.trial.arms[arm], threads, ...row]) : [];
      }),
    );
  const ARM_AND_THREADS = [
    { key: 'arm', label: 'arm', unit: 'text' },
    { key: 'threads', label: 'threads', unit: 'count' },
  ];
  const tableLevels = (context, all) => (all || context.level === undefined ? context.section.levels : [context.level]);
  /** The table of a plot: what `perCell` makes of each cell are the rows, after the arm and the threads. */
  const levelTable = (columns, perCell) => (context, all) => ({
    columns: [...ARM_AND_THREADS, ...columns],
    rows: rowsOf(context, tableLevels(context, all), perCell),
  });

  const rateColumns = (unit) => [
    { key: 'rate', label: 'rate', unit },
    { key: 'rate_low', label: 'low', unit },
    { key: 'rate_high', label: 'high', unit },
    { key: 'unit', label: '', unit: 'text', csvOnly: true },
    { key: 'runs', label: 'runs', unit: 'count' },
    { key: 'note', label: 'note', unit: 'text' },
  ];
  const rateRow = (cell, unit) => [
    cell.rate,
    ...(cell.rate_interval || [null, null]),
    unit,
    cell.runs,
    outcomeText(cell),
  ];
  const outcomeText = (cell) => (cell.cannot ? `cannot: ${cell.cannot}` : cell.failed ? 'failed' : '');
  const rateText = (cell, unit) => withInterval(cell.rate, cell.rate_interval, unit);
  const rateEnds = (cell) => [cell.rate, ...(cell.rate_interval || [])];

  /** An arm's rates against threads. */
  function rateMarks(name, cells, banded) {
    const points = cells.filter((cell) => cell.rate_interval).map((cell) => [cell.threads, ...cell.rate_interval]);
    return [
      ...(banded ? [{ kind: 'band', name, points }] : []),
      { kind: 'errors', name, points },
      { kind: 'line', name, points: cells.map((cell) => [cell.threads, cell.rate]) },
    ];
  }

  /** Throughput against threads; with one level, arms one below the other. */
  const throughput = {
    legend: (context) => context.section.levels.length > 1 || 'switches',
    view(context) {
      const { section, log } = context;
      const { levels, unit } = section;
      const rates = (level) => cellsWith(context, level, (cell) => cell.rate);
      const cells = levels.flatMap(rates);
      if (!cells.length) return null;
      if (levels.length === 1) return forest(context, cells.map(forestRow), unit);
      const name = section.less_is_better ? 'less is better' : '';
      return {
        x: levelAxis(levels),
        y: valueAxis(
          cells.flatMap(({ cell }) => rateEnds(cell)),
          { unit, log, zero: true, name },
        ),
        marks: context.arms.flatMap((arm) => {
          const own = cells.filter((each) => each.arm === arm).map(({ cell }) => cell);
          return rateMarks(nameOf(context, arm), own, context.arms.length <= MOST_BANDS);
        }),
        tip: (level) => [threadsText(level), tipRows(rates(level), (cell) => rateText(cell, unit))],
        gist: rateGist(context),
      };
    },
    table: (context) => ({
      columns: [...ARM_AND_THREADS, ...rateColumns(context.section.unit)],
      rows: rowsOf(context, context.section.levels, (cell) => [rateRow(cell, context.section.unit)]),
    }),
  };

  function rateGist(context) {
    const { levels, less_is_better: lessIsBetter, unit } = context.section;
    const level = levels[levels.length - 1];
    const cells = cellsWith(context, level, (cell) => cell.rate).map(({ name, found }) => [name, found]);
    const bestFirst = lessIsBetter ? leastFirst(cells) : cells.sort((a, b) => b[1] - a[1]);
    return `With ${threadsText(level)}, best first: ${inOrder(bestFirst, unit)}.`;
  }

  const forestRow = ({ name, cell, found: value }) => ({
    label: name,
    name,
    value,
    interval: cell.rate_interval,
    heading: `${name}, ${threadsText(cell.threads)}`,
    runs: cell.runs,
  });

  /**
   * Values with intervals, one below the other, each in a row of its own with its name.
   * @param {Array<{label: string, name: string, value: number, interval?: number[], heading: string,
   *   runs?: number}>} rows `name` gives the looks
   */
  function forest(context, rows, unit) {
    const all = rows.flatMap((row) => [row.value, ...(row.interval || [])]).filter(isNumber);
    const areRates = rows.some((row) => row.interval);
    const headed = rows.map((row) => [row.heading, row.value]);
    return {
      x: valueAxis(all, {
        unit,
        log: context.log,
        name: areRates && context.section.less_is_better ? 'less is better' : '',
        zero: Math.min(...all) < Math.max(...all) * 0.5 || !areRates,
        count: context.width < 480 ? 3 : 5,
        pad: 0.08,
      }),
      y: rowAxis(rows, context),
      pointer: 'y',
      marks: rows.flatMap(({ name, value, interval }, index) => [
        ...(interval ? [{ kind: 'errors', lying: true, name, points: [[index, ...interval]] }] : []),
        { kind: 'dots', name, points: [[value, index]] },
      ]),
      tip(index) {
        const { name, label, value, interval, heading, runs } = rows[index];
        const figures = [[name, label, withInterval(value, interval, unit)]];
        return [heading, runs ? [...figures, [null, 'runs', String(runs)]] : figures];
      },
      height: 64 + rowsHeight(rows, context, 26),
      gist: `${inOrder(headed, unit)}.`,
    };
  }

  const pointOf = (points, quantile) => points.find(([of]) => of === quantile);

  /** Latency percentiles on a scale of nines. */
  const latency = {
    levels: true,
    logAtFirst: true,
    view: ofLevel(
      (cell) => cell.latency,
      (context, cells) => {
        const { level, log } = context;
        // Bars stand a little apart: the ranges of single runs overlap.
        const apart = Math.min(0.035, 0.16 / context.arms.length);
        const ends = cells.flatMap(({ found }) => found.flatMap((point) => point.slice(1)));
        const at99 = cells.flatMap(({ name, found }) => {
          const point = pointOf(found, 0.99);
          return point ? [[name, point[1]]] : [];
        });
        const tick = (place) => quantileText(quantileAt(place));
        const title = 'share of operations that are faster';
        return {
          x: makeAxis(0.15, 5.15, QUANTILES.map(ninesOf), tick, title, { unmap: quantileAt }),
          y: valueAxis(ends, { unit: 'ns', log, zero: true, name: 'latency' }),
          marks: cells.flatMap(({ arm, name, found }) => {
            const place = (quantile) => ninesOf(quantile) + besideMiddle(context, arm) * apart;
            // A percentile that is not known interrupts the line.
            const points = QUANTILES.map((quantile) => [place(quantile), pointOf(found, quantile)?.[1]]);
            const ranges = found.map(([quantile, , low, high]) => [place(quantile), low, high]);
            return [
              { kind: 'errors', name, points: ranges },
              { kind: 'line', name, points },
            ];
          }),
          tip: (quantile) => [
            `${quantileText(quantile)}, ${threadsText(level)}`,
            tipRows(cells, (cell, points) => {
              const point = pointOf(points, quantile);
              // The greatest of more operations is greater.
              const of = quantile >= 1 ? ` of ${cell.latency_operations} operations` : '';
              return point ? withInterval(point[1], point.slice(2), 'ns') + of : 'too few operations';
            }),
          ],
          gist: at99.length
            ? `99th percentile with ${threadsText(level)}, best first: ${inOrder(leastFirst(at99), 'ns')}.`
            : '',
        };
      },
    ),
    table: levelTable(
      [
        { key: 'quantile', label: 'quantile', unit: 'quantile' },
        { key: 'latency_ns', label: 'latency', unit: 'ns' },
        { key: 'operations', label: 'of operations', unit: 'count' },
        { key: 'least_run_ns', label: 'least run', unit: 'ns' },
        { key: 'greatest_run_ns', label: 'greatest run', unit: 'ns' },
      ],
      (cell) =>
        (cell.latency || []).map(([quantile, ns, low, high]) => [quantile, ns, cell.latency_operations, low, high]),
    ),
  };

  /** What is asked of latencies in one number: the mean, or a quantile. */
  const LATENCIES = [
    { value: 'mean', label: 'mean', point: (cell) => [null, cell.latency_mean] },
    ...[
      ['p95', 0.95],
      ['p99', 0.99],
      ['max', 1],
    ].map(([value, quantile]) => ({
      value,
      label: quantile < 1 ? value : 'greatest',
      point: (cell) => pointOf(cell.latency || [], quantile) || [],
    })),
  ];
  const latencyOptions = (context) =>
    LATENCIES.filter(({ point }) => context.section.cells.some((cell) => isPositive(point(cell)[1])));
  const latencyAsked = (context) => {
    const options = latencyOptions(context);
    return options.find(({ value }) => value === context.choice) || options[0] || LATENCIES[0];
  };
  /** The range of single runs, where it is known. */
  const latencyRange = (point) => (point.slice(2, 4).filter(isNumber).length === 2 ? point.slice(2, 4) : undefined);
  const latencyGist = ({ label }, level, cells) =>
    cells.length
      ? `${label} latency with ${threadsText(level)}, best first: ` +
        `${inOrder(leastFirst(cells.map(({ name, found }) => [name, found])), 'ns')}.`
      : '';
  const latencyTable = levelTable(
    LATENCIES.map(({ value, label }) => ({ key: `${value}_ns`, label, unit: 'ns' })),
    (cell) => (LATENCIES.some(({ point }) => isNumber(point(cell)[1])) ? [LATENCIES.map(({ point }) => point(cell)[1])] : []),
  );

  /** Latency against threads; with one level, arms one below the other. */
  const latencies = {
    legend: (context) => context.section.levels.length > 1 || 'switches',
    choice: 'of',
    options: latencyOptions,
    logAtFirst: true,
    view(context) {
      const { section, log } = context;
      const { levels } = section;
      const asked = latencyAsked(context);
      const at = (level) => cellsWith(context, level, (cell) => asked.point(cell)[1]);
      const cells = levels.flatMap(at);
      if (!cells.length) return null;
      const range = (cell) => latencyRange(asked.point(cell));
      const level = levels[levels.length - 1];
      const gist = latencyGist(asked, level, at(level));
      if (levels.length === 1) {
        const rows = cells.map((each) => ({ ...forestRow(each), interval: range(each.cell) }));
        return { ...forest(context, rows, 'ns'), gist };
      }
      return {
        x: levelAxis(levels),
        y: valueAxis(
          cells.flatMap(({ cell, found }) => [found, ...(range(cell) || [])]),
          { unit: 'ns', log, zero: true, name: `${asked.label} latency` },
        ),
        marks: context.arms.flatMap((arm) => {
          const own = cells.filter((each) => each.arm === arm);
          const name = nameOf(context, arm);
          return [
            { kind: 'errors', name, points: own.map(({ cell }) => [cell.threads, ...(range(cell) || [null, null])]) },
            { kind: 'line', name, points: own.map(({ cell, found }) => [cell.threads, found]) },
          ];
        }),
        tip: (threads) => [
          `${asked.label} latency, ${threadsText(threads)}`,
          tipRows(at(threads), (cell, value) => withInterval(value, range(cell), 'ns')),
        ],
        gist,
      };
    },
    table: (context) => latencyTable(context, true),
  };

  /** Throughput against latency: a line for each arm, a point for each level. */
  const tradeoff = {
    choice: 'of',
    options: latencyOptions,
    logAtFirst: true,
    view(context) {
      const { section, log, theme } = context;
      const { levels, unit } = section;
      const asked = latencyAsked(context);
      const both = (cell) => [cell.rate, asked.point(cell)[1]];
      const at = (level) => cellsWith(context, level, (cell) => (both(cell).every(isPositive) ? both(cell) : null));
      const cells = levels.flatMap(at);
      if (!cells.length) return null;
      const ofArm = (arm) => cells.filter((each) => each.arm === arm);
      const arms = context.arms.filter((arm) => ofArm(arm).length);
      const level = levels[levels.length - 1];
      const label = (own) => ({
        show: true,
        formatter: ({ dataIndex }) => String(own[dataIndex].cell.threads),
        color: theme.soft,
        fontSize: 11,
      });
      return {
        x: valueAxis(
          cells.map(({ found }) => found[0]),
          { unit, zero: true, name: 'throughput', count: context.width < 480 ? 3 : 5 },
        ),
        y: valueAxis(
          cells.map(({ found }) => found[1]),
          { unit: 'ns', log, zero: true, name: `${asked.label} latency` },
        ),
        marks: arms.map((arm) => {
          const own = ofArm(arm);
          const points = own.map(({ found }) => found);
          return { kind: 'line', name: nameOf(context, arm), points, more: { label: label(own), labelLayout: { hideOverlap: true } } };
        }),
        /** The level of each arm whose rate is nearest. */
        tip: (rate) => [
          `near ${human(rate, unit)}`,
          arms.map((arm) => {
            const { name, cell, found } = nearest(ofArm(arm), rate, (each) => each.found[0]);
            const figures = `${human(found[0], unit)}, ${human(found[1], 'ns')}`;
            return [name, `${name}, ${threadsText(cell.threads)}`, figures];
          }),
        ],
        gist: latencyGist(
          asked,
          level,
          at(level).map((each) => ({ ...each, found: each.found[1] })),
        ),
        notes: ['The numbers at the points are threads. Right and low is good.'],
      };
    },
    table: (context) => {
      const { columns, rows } = latencyTable(context, true);
      const rate = ([arm, threads]) =>
        cellOf(context.section, context.trial.arms.indexOf(arm), threads)?.rate;
      return {
        columns: [...columns.slice(0, 2), { key: 'rate', label: 'rate', unit: context.section.unit }, ...columns.slice(2)],
        rows: rows.map((row) => [...row.slice(0, 2), rate(row), ...row.slice(2)]),
      };
    },
  };

  /** Every run by its round. */
  const runs = {
    levels: true,
    view: ofLevel(
      (cell) => cell.rounds,
      (context, cells) => {
        const { section, level, log, width, arms } = context;
        const { unit } = section;
        const values = cells.flatMap(({ found }) => found.map(([, value]) => value));
        const last = Math.max(...cells.flatMap(({ found }) => found.map(([round]) => round)));
        const ticks = roundTicks(1, last, width < 480 ? 5 : 10).filter(Number.isInteger);
        // Runs of one round stand a little apart, in the order of the arms.
        const apart = 0.6 / Math.max(arms.length, 1);
        return {
          x: makeAxis(0.5, last + 0.5, ticks.length ? ticks : [last], String, 'round', { unmap: Math.round }),
          y: valueAxis(values, {
            unit,
            log,
            zero: Math.min(...values) < Math.max(...values) * 0.5,
            name: section.less_is_better ? 'less is better' : '',
          }),
          marks: cells.map(({ arm, name, found }) => ({
            kind: 'dots',
            name,
            points: found.map(([round, value]) => [round + besideMiddle(context, arm) * apart, value]),
            more: { symbolSize: found.length > 40 ? 5 : 8 },
          })),
          tip: (round) => [`round ${round}, ${threadsText(level)}`, runRows(cells, round, unit)],
          gist:
            `Single runs with ${threadsText(level)}: ` +
            `${cells.map(({ name, found }) => `${shorten(name, 80)} between ${extremes(found.map(([, value]) => value), unit)}`).join('; ')}.`,
        };
      },
    ),
    table: (context, all) =>
      levelTable(
        [
          { key: 'round', label: 'round', unit: 'count' },
          { key: 'order', label: 'order in the round', unit: 'count' },
          { key: 'value', label: 'value', unit: context.section.unit },
        ],
        (cell) => (cell.rounds || []).map(([round, value], index) => [round, cell.orders?.[index], value]),
      )(context, all),
  };

  /** The runs of a round, in the order in which they were run where that is known. */
  function runRows(cells, wanted, unit) {
    return cells
      .flatMap(({ name, cell, found }) =>
        found
          .map(([round, value], index) => ({ name, round, value, order: cell.orders?.[index] }))
          .filter(({ round }) => round === wanted),
      )
      .sort((one, other) => (one.order || 0) - (other.order || 0))
      .map(({ name, value, order }) => [name, order ? `${name}, run ${order} of the round` : name, human(value, unit, 4)]);
  }

  /** Cumulative distribution of latency. */
  const cdf = {
    levels: true,
    logAtFirst: true,
    view: ofLevel(
      (cell) => cell.cdf,
      (context, cells) => {
        const { level, log, width } = context;
        const shareTick = (share) => `${share * 100}${NBSP}%`;
        const x = valueAxis(
          cells.flatMap(({ found }) => found.map(([ns]) => ns)),
          { unit: 'ns', log, zero: true, name: 'latency', count: width < 480 ? 3 : 6 },
        );
        const medians = cells
          .map(({ name, found }) => [name, (found.find(([, share]) => share >= 0.5) || [null])[0]])
          .filter(([, ns]) => ns !== null);
        return {
          x,
          y: makeAxis(0, 1, [0, 0.25, 0.5, 0.75, 1], shareTick, 'share of operations'),
          marks: cells.map(({ name, found }) => ({ kind: 'line', name, points: found })),
          tip: (ns) => [
            `done within ${human(ns, 'ns')}`,
            tipRows(cells, (_, points) => percentText(shareWithin(points, ns, x), 4)),
          ],
          gist: `Half of the operations with ${threadsText(level)} are done within: ${inOrder(leastFirst(medians), 'ns')}.`,
        };
      },
    ),
    table: levelTable(
      [
        { key: 'latency_ns', label: 'latency up to', unit: 'ns' },
        { key: 'share', label: 'share', unit: 'share' },
      ],
      (cell) => cell.cdf || [],
    ),
  };

  /** Share of operations done within a time, between two known points as the line is drawn. */
  function shareWithin(points, ns, x) {
    const after = points.findIndex(([upTo]) => upTo > ns);
    if (after < 0) return 1;
    if (after === 0) return 0;
    const [[from, low], [to, high]] = [points[after - 1], points[after]];
    const [left, at, right] = [from, ns, to].map(x.map);
    return low + ((high - low) * (at - left)) / (right - left);
  }

  /** What is followed in the course of a run: `key` of the `part` of a cell. */
  const COURSES = {
    throughput: { label: 'throughput', unit: 'op/s', part: 'series', key: 'typical' },
    p50: { label: 'median latency', unit: 'ns', part: 'tails', key: 'p50' },
    p99: { label: 'p99 latency', unit: 'ns', part: 'tails', key: 'p99' },
  };
  const courseOf = (context) => COURSES[context.choice] || COURSES.throughput;
  const stepsIn = (cell, { part, key }) => cell[part]?.[key];

  /** Throughput or latency in the course of a run. */
  const series = {
    levels: true,
    choice: 'what',
    options: (context) =>
      Object.entries(COURSES)
        .filter(([, course]) => context.section.cells.some((cell) => stepsIn(cell, course)?.length))
        .map(([value, { label }]) => ({ value, label })),
    view: ofLevel(
      (cell, context) => {
        const course = courseOf(context);
        // Nothing completed in a step: no latency is known, while a rate of nothing is a rate.
        const known = (value) => (course.unit === 'ns' && !isPositive(value) ? null : value);
        return stepsIn(cell, course)?.map(known);
      },
      (context, cells) => {
        const { label, unit, part } = courseOf(context);
        const warmup = context.section.warmup_seconds || 0;
        const step = (cell) => cell[part].step_seconds;
        const ranges = unit === 'op/s';
        const bands = ranges && context.arms.length <= MOST_BANDS;
        const y = valueAxis(
          cells.flatMap(({ cell, found }) =>
            bands ? [found, cell.series.low || [], cell.series.high || []].flat() : found,
          ),
          { unit, log: context.log, zero: true },
        );
        const end = Math.max(...cells.map(({ cell, found }) => found.length * step(cell)));
        const [bottom, top] = [y.option.min, y.option.max].map(y.unmap);
        const ticks = roundTicks(0, end, context.width < 480 ? 4 : 8);
        const measured = cells
          .map(({ name, cell, found }) => [
            name,
            found.filter((value, index) => index >= warmup / step(cell) && isNumber(value)),
          ])
          .filter(([, values]) => values.length)
          .map(([name, values]) => `${shorten(name, 80)} between ${extremes(values, unit)}`);
        return {
          x: makeAxis(0, end, ticks, tickText, 'seconds'),
          y,
          marks: [
            ...(warmup > 0
              ? [
                  {
                    kind: 'shade',
                    points: [
                      [0, bottom],
                      [Math.min(warmup, end), top],
                    ],
                    word: 'warm-up',
                  },
                ]
              : []),
            ...cells.flatMap(({ name, cell, found }) => {
              const middle = (index) => (index + 0.5) * step(cell);
              const range = (cell.series?.low || []).map((low, index) => [
                middle(index),
                low,
                cell.series.high?.[index],
              ]);
              return [
                ...(bands ? [{ kind: 'band', name, points: range }] : []),
                { kind: 'line', name, points: found.map((value, index) => [middle(index), value]) },
              ];
            }),
          ],
          tip: (seconds) => [
            `at ${significant(seconds, 3)}${NBSP}s${seconds < warmup ? ', warm-up' : ''}`,
            tipRows(cells, (cell, values) => {
              const index = Math.floor(seconds / step(cell));
              const range = ranges ? [cell.series.low?.[index], cell.series.high?.[index]] : null;
              return withInterval(values[index], range, unit);
            }),
          ],
          gist: `${label} after the warm-up, ${threadsText(context.level)}: ${measured.join('; ')}.`,
        };
      },
    ),
    table: levelTable(
      [
        { key: 'from_seconds', label: 'from', unit: 's' },
        { key: 'rate', label: 'rate', unit: 'op/s' },
        { key: 'rate_low', label: 'low', unit: 'op/s' },
        { key: 'rate_high', label: 'high', unit: 'op/s' },
        { key: 'p50_ns', label: 'p50', unit: 'ns' },
        { key: 'p99_ns', label: 'p99', unit: 'ns' },
      ],
      ({ series: rates = null, tails = null }) =>
        seriesSteps(rates, tails).map(([from, index, tail]) => [
          from,
          ...['typical', 'low', 'high'].map((part) => rates?.[part]?.[index]),
          ...['p50', 'p99'].map((part) => tails?.[part]?.[tail] || null),
        ]),
    ),
  };

  /** The steps of a cell's course as [seconds, index in the rates, index in the latencies], -1 where one has none. */
  function seriesSteps(rates, tails) {
    const steps = (count, { step_seconds: step }, indices) =>
      Array.from({ length: count }, (_, index) => [Number((index * step).toPrecision(9)), ...indices(index)]);
    if (rates && tails && rates.step_seconds === tails.step_seconds) {
      return steps(Math.max(rates.typical.length, tails.p50.length), rates, (index) => [index, index]);
    }
    return [
      ...(rates ? steps(rates.typical.length, rates, (index) => [index, -1]) : []),
      ...(tails ? steps(tails.p50.length, tails, (index) => [-1, index]) : []),
    ].sort((a, b) => a[0] - b[0]);
  }

  const extremes = (values, unit) => `${human(Math.min(...values), unit)} and ${human(Math.max(...values), unit)}`;

  // The level of an interval where a contrast does not say.
  const USUAL_LEVEL = 0.95;

  /** How the ratio of a contrast, and what is known of it, went round by round. */
  const rounds = {
    legend: () => false,
    logAtFirst: true,
    choice: 'comparison',
    options: (context) =>
      withCourse(context.section).map(([index, contrast]) => ({
        value: String(index),
        group: `${metricText(contrast.metric)}, ${threadsText(contrast.threads)}`,
        label: `${shorten(pairText(context, contrast), 60)}: ${contrast.verdict}`,
      })),
    view(context) {
      const found = withCourse(context.section);
      if (!found.length) return null;
      const [, contrast] = chosenContrast(context, found);
      const { course } = contrast;
      const last = course.rounds[course.rounds.length - 1];
      const practical = isPositive(contrast.practical)
        ? contrast.practical
        : metricOf(contrast.metric).band || context.trial.practical;
      const edges = isPositive(practical) ? [1 / (1 + practical), 1 + practical] : [1, 1];
      // The first intervals can be far wider than everything after them; they run out of the picture.
      const settled = (values) =>
        (values || []).filter((value, index, all) => isNumber(value) && index >= all.length / 3);
      const final = finalInterval(contrast);
      const y = valueAxis([1, ...edges, ...course.pairs, ...settled(course.low), ...settled(course.high), ...final], {
        log: context.log,
        name: `ratio ${shorten(pairText(context, contrast), 48)}`,
      });
      const ticks = roundTicks(course.rounds[0], last, context.width < 480 ? 5 : 10).filter(Number.isInteger);
      const [from, to] = [course.rounds[0] - 0.5, last + 0.5];
      return {
        x: makeAxis(from, to, ticks.length ? ticks : [last], String, 'round', { unmap: Math.round }),
        y,
        marks: roundMarks(contrast, clipped(y), edges, [from, to], context.theme),
        tip: (round) => [`round ${round}`, roundTip(course, course.rounds.indexOf(round))],
        about: `${pairText(context, contrast)}, ${threadsText(contrast.threads)}`,
        gist: contrastText(context, contrast),
        notes: [
          contrastText(context, contrast),
          ...roundsKey(edges),
          ...cutText(course, y),
          ...leftOutText(context),
        ],
        alert: contrast.unequal,
      };
    },
    table(context, all) {
      const found = withCourse(context.section);
      const chosen = all || !found.length ? found : [chosenContrast(context, found)];
      const arms = context.trial.arms;
      return {
        columns: [
          { key: 'a', label: 'arm', unit: 'text' },
          { key: 'b', label: 'over', unit: 'text' },
          { key: 'threads', label: 'threads', unit: 'count' },
          { key: 'metric', label: 'metric', unit: 'text' },
          { key: 'round', label: 'round', unit: 'count' },
          { key: 'pair_ratio', label: 'this round', unit: 'ratio' },
          { key: 'ratio', label: 'estimate', unit: 'ratio' },
          { key: 'low', label: 'low', unit: 'ratio' },
          { key: 'high', label: 'high', unit: 'ratio' },
        ],
        rows: chosen.flatMap(([, { a, b, threads, metric, course }]) =>
          alongRounds(course, 'pairs', 'ratio', 'low', 'high').map((row) => [
            arms[a],
            arms[b],
            threads,
            metric,
            ...row,
          ]),
        ),
      };
    },
  };

  /** Parts of a course, round by round. */
  const alongRounds = (course, ...parts) =>
    course.rounds.map((round, index) => [round, ...parts.map((part) => course[part]?.[index])]);

  /** The band that does not matter, the pairs, and the estimate with its interval as far as it is in the picture. */
  function roundMarks(contrast, inside, [low, high], [from, to], theme) {
    const { course } = contrast;
    const last = course.rounds[course.rounds.length - 1];
    const final = finalInterval(contrast);
    const accent = { symbol: 'none', lineStyle: { color: theme.accent, width: 2 } };
    const ring = { color: theme.ground, borderColor: theme.ink, borderWidth: 1.5, opacity: 1 };
    const pairs = alongRounds(course, 'pairs');
    return [
      {
        kind: 'shade',
        points: [
          [from, low],
          [to, high],
        ],
      },
      {
        kind: 'rule',
        points: [
          [from, 1],
          [to, 1],
        ],
      },
      { kind: 'band', y: inside, points: alongRounds(course, 'low', 'high'), colour: theme.accent, opacity: 0.2 },
      // The interval at the end: a verdict can come with the first interval there is, of which there is no band.
      ...(final.length ? [{ kind: 'errors', y: inside, points: [[last, ...final]], colour: theme.accent }] : []),
      { kind: 'line', y: inside, name: 'estimate', points: alongRounds(course, 'ratio'), more: accent },
      { kind: 'dots', name: 'pair', points: pairs, more: { symbol: 'circle', symbolSize: 7, itemStyle: ring } },
    ];
  }

  const chosenContrast = (context, found) => found.find(([index]) => String(index) === context.choice) || found[0];
  const withCourse = (section) =>
    [...(section.contrasts || []).entries()].filter(([, { course }]) => course && course.rounds.length > 0);
  const pairText = (context, contrast) => `${nameOf(context, contrast.a)} / ${nameOf(context, contrast.b)}`;

  function contrastText(context, contrast) {
    const { interval, interval_level: level, ratio } = contrast;
    const known = interval && interval.every(isNumber);
    const around = known
      ? ` [${interval.map(ratioText).join(', ')}] (${percentText(isNumber(level) ? level : USUAL_LEVEL, 7)})`
      : '';
    return (
      `${pairText(context, contrast)}, ${metricText(contrast.metric)}, ${threadsText(contrast.threads)}: ` +
      `${contrast.verdict}${isNumber(ratio) ? `, ratio ${ratioText(ratio)}${around}` : ''}.` +
      (contrast.less_is_better ? ' Less is better.' : '')
    );
  }

  /** The interval of a contrast after its last round, if it has one. */
  function finalInterval({ interval, course }) {
    const ends = interval || ['low', 'high'].map((end) => course[end]?.[course.rounds.length - 1]);
    return ends.every(isPositive) ? ends : [];
  }

  /** Says so if an interval goes on beyond the picture. */
  function cutText(course, y) {
    const [low, high] = [y.option.min, y.option.max].map(y.unmap);
    const isCut = alongRounds(course, 'low', 'high').some((point) => point[1] < low || point[2] > high);
    return isCut ? ['The intervals of the first rounds are wider than the picture.'] : [];
  }

  const roundsKey = ([low, high]) =>
    high > low ? [`Grey: differences that do not matter, ${ratioText(low)} to ${ratioText(high)}.`] : [];

  const leftOutText = ({ trial }) =>
    isPositive(trial.contrasts_left_out)
      ? [`${trial.contrasts_left_out} more comparisons of this trial are left out here: the page would be too large.`]
      : [];

  function roundTip(course, index) {
    if (index < 0) return [];
    const [pair, ratio, low, high] = ['pairs', 'ratio', 'low', 'high'].map((part) => course[part]?.[index]);
    const known = isNumber(low) && isNumber(high);
    return [
      [null, 'this round', ratioText(pair)],
      [null, 'estimate so far', ratioText(ratio)],
      [null, 'interval', known ? `${ratioText(low)} to ${ratioText(high)}` : 'not yet known'],
    ];
  }

  /**
   * A plot of one number for each arm and level: a bar with the arm's shape on its end.
   * @param {function(Object): {unit: string, label: string, axis?: string, of: function(Object): ?number,
   *   columns: Object[], row: function(Object): Array}} what of a section
   */
  const barsPlot = (what) => ({
    legend: (context) => context.section.levels.length > 1 || 'switches',
    view(context) {
      const { section, log } = context;
      const { unit, label, axis, of } = what(section);
      const groups = section.levels.map((level) => cellsWith(context, level, of));
      const values = groups.flat().map(({ found }) => found);
      if (!values.length || (log && !values.some(isPositive))) return null;
      const level = section.levels[groups.length - 1];
      const best = leastFirst(groups[groups.length - 1].map(({ name, found }) => [name, found]));
      const gist = `${label} with ${threadsText(level)}, least first: ${inOrder(best, unit)}.`;
      if (groups.length === 1) {
        const rows = groups[0].map((each) => ({ ...forestRow(each), interval: undefined, runs: undefined }));
        return { ...forest(context, rows, unit), gist };
      }
      return {
        x: stepAxis(section.levels.map(String), 'threads'),
        y: valueAxis(values, { unit, log, zero: true, name: axis }),
        marks: barMarks(context, groups),
        tip: (index) => [
          threadsText(section.levels[index]),
          tipRows(groups[index], (_, value) => human(value, unit, 4)),
        ],
        gist,
      };
    },
    table(context) {
      const { columns, of, row } = what(context.section);
      return levelTable(columns, (cell) => (isNumber(of(cell)) ? [row(cell)] : []))(context, true);
    },
  });

  /** Bars side by side in groups; positions of groups are 0, 1, 2 … */
  function barMarks(context, groups) {
    const room = 0.76 / Math.max(context.arms.length, 1);
    const pixels = ((context.width - 60) / groups.length) * room;
    return context.arms.flatMap((arm) => {
      const name = nameOf(context, arm);
      const points = groups.flatMap((cells, group) =>
        cells.filter((each) => each.arm === arm).map(({ found }) => [group + besideMiddle(context, arm) * room, found]),
      );
      return [
        { kind: 'bars', name, points, pixels: Math.max(Math.min(pixels - 2, 14), 2) },
        { kind: 'dots', name, points, more: { symbolSize: Math.max(Math.min(pixels, 9), 4) } },
      ];
    });
  }

  const numberPlot = (key, unit, label, short) =>
    barsPlot(() => ({
      unit,
      label,
      of: (cell) => cell[key],
      columns: [{ key, label: short, unit }],
      row: (cell) => [cell[key]],
    }));
  const cpu = numberPlot('cpu_ns', 'ns', 'CPU time for each operation', 'CPU for each operation');
  const space = numberPlot('space_used_bytes', 'B', 'Space used', 'space used');

  const device = barsPlot((section) => {
    const wrote = section.cells.filter((cell) => isNumber(cell.device_bytes));
    // A factor can be given where every cell that wrote to the device had asked for bytes.
    const asked = wrote.every((cell) => isPositive(cell.asked_bytes));
    const of = ({ device_bytes: bytes, asked_bytes: of_ }) => (!isNumber(bytes) ? null : asked ? bytes / of_ : bytes);
    return {
      axis: asked ? 'bytes per byte asked' : 'for each operation',
      unit: asked ? '' : 'B',
      label: `Bytes to the device for each ${asked ? 'byte asked' : 'operation'}`,
      of,
      columns: [
        { key: 'device_bytes', label: 'to the device', unit: 'B' },
        { key: 'asked_bytes', label: 'asked', unit: 'B' },
        ...(asked ? [{ key: 'factor', label: 'for each byte asked', unit: 'ratio' }] : []),
      ],
      row: (cell) => [cell.device_bytes, cell.asked_bytes, ...(asked ? [of(cell)] : [])],
    };
  });

  /** Times of the stages around the load. */
  const stages = {
    levels: true,
    logAtFirst: true,
    view: ofLevel(
      (cell) => cell.stages && Object.entries(cell.stages),
      (context, cells) => {
        const { log, width, arms } = context;
        const names = [...new Set(cells.flatMap(({ found }) => found.map(([stage]) => stage)))];
        const seconds = cells.flatMap(({ found }) => found.map((entry) => entry[1]));
        // A little apart within a row, so that equal times do not cover each other.
        const apart = 0.6 / Math.max(arms.length, 1);
        const ofStage = (stage) => cells.map(({ name, cell }) => [name, cell.stages[stage]]);
        return {
          x: valueAxis(seconds, { unit: 's', log, zero: true, count: width < 480 ? 3 : 6 }),
          y: stepAxis(
            names.map((name) => shorten(name, 16)),
            '',
            { inverse: true },
          ),
          pointer: 'y',
          marks: cells.map(({ arm, name, found }) => ({
            kind: 'dots',
            name,
            points: found.map(([stage, time]) => [time, names.indexOf(stage) + besideMiddle(context, arm) * apart]),
          })),
          tip: (index) => [names[index], tipRows(cells, (cell) => human(cell.stages[names[index]], 's', 3))],
          height: 70 + names.length * Math.max(34, arms.length * 7),
          gist: names.map((stage) => `${stage}: ${inOrder(ofStage(stage), 's')}`).join('; ') + '.',
        };
      },
    ),
    table: levelTable(
      [
        { key: 'stage', label: 'stage', unit: 'text' },
        { key: 'seconds', label: 'time', unit: 's' },
      ],
      (cell) => Object.entries(cell.stages || {}),
    ),
  };

  /** The same arms in several trials. */
  const compare = {
    levels: true,
    legend: () => 'switches',
    levelsOf: (context) =>
      [...new Set(sameSections(context).flatMap(([, section]) => section.levels))].sort((a, b) => a - b),
    view(context) {
      const rows = compareCells(context, [context.level])
        .filter(([, name, cell]) => isNumber(cell.rate) && !isHidden(context, name))
        .map(([trial, name, cell], index, all) => ({
          ...forestRow({ name, cell, found: cell.rate }),
          label: `${index === 0 || all[index - 1][1] !== name ? `${name} · ` : ''}${trialLabel(trial)}`,
          heading: `${name}, ${trialLabel(trial)}, ${threadsText(cell.threads)}`,
        }));
      return rows.length ? forest(context, rows, context.section.unit) : null;
    },
    table(context, all) {
      const unit = context.section.unit;
      const levels = all ? compare.levelsOf(context) : [context.level];
      return {
        columns: [{ key: 'trial', label: 'trial', unit: 'text' }, ...ARM_AND_THREADS, ...rateColumns(unit)],
        rows: compareCells(context, levels).map(([trial, name, cell]) => [
          trialLabel(trial),
          name,
          cell.threads,
          ...rateRow(cell, unit),
        ]),
      };
    },
  };

  const isHidden = (context, name) => hiddenArms[context.trialIndex].has(context.trial.arms.indexOf(name));
  const sameSections = ({ section: { title, unit } }) =>
    trials.flatMap((trial) => {
      const same = trial.sections.find((section) => section.title === title && section.unit === unit);
      return same ? [[trial, same]] : [];
    });

  /** Cells of all trials at some levels as [trial, name of the arm, cell], arm by arm. */
  function compareCells(context, levels) {
    const found = sameSections(context);
    const names = [...new Set(found.flatMap(([trial]) => trial.arms))];
    return levels.flatMap((level) =>
      names.flatMap((name) =>
        found.flatMap(([trial, section]) => {
          const cell = cellOf(section, trial.arms.indexOf(name), level);
          return cell ? [[trial, name, cell]] : [];
        }),
      ),
    );
  }

  /** What tells a trial from the others on the page. */
  function trialLabel(trial) {
    const differing = ['name', 'kernel', 'device'].filter((key) => trials.some((other) => other[key] !== trial[key]));
    const number = trial.id === null || trial.id === undefined ? '' : `#${trial.id}`;
    const day = String(trial.started_at || '').slice(0, 10);
    const chosen = [number, ...differing.map((key) => trial[key])].filter(Boolean);
    if (chosen.length < 2 && day) chosen.push(day);
    return chosen.join(' ') || String(trial.name);
  }

  /** What the source of a claim published, pale behind what is measured here. */
  const original = {
    choice: 'table',
    options: (context) =>
      originalPictures(context).map(({ table, column }, index) => {
        const words = [shorten(table.title, 60), column === null ? '' : shorten(table.columns[column], 30)];
        return { value: String(index), label: words.filter(Boolean).join(': ') };
      }),
    view(context) {
      const { table, column } = chosenOriginal(context) || {};
      if (!table) return null;
      return column === null
        ? originalOverlay(context, table, originalCurves(context, table))
        : originalBars(context, table, column);
    },
    table(context) {
      const { columns, rows } = (chosenOriginal(context) || { table: { columns: [], rows: [] } }).table;
      return {
        columns: columns.map(String).map((label, index) => ({ key: label, label, unit: index ? 'plain' : 'text' })),
        rows: rows.map((row) => columns.map((_, index) => row[index])),
      };
    },
  };

  /** What can be drawn of a source's tables: one with curves of arms as a whole (`column` null), else each column. */
  function originalPictures(context) {
    return (context.trial.original || []).flatMap((table) => {
      if (originalCurves(context, table).length) return [{ table, column: null }];
      return table.columns
        .map((_, column) => ({ table, column }))
        .filter(({ column }) => column > 0 && table.rows.some((row) => isNumber(numberIn(row[column]))));
    });
  }

  const chosenOriginal = (context) => originalPictures(context)[Number(context.choice || 0)];

  /** The columns of a table that name arms, with their points; none if its rows are not levels. */
  function originalCurves(context, table) {
    const numbers = table.rows.map((row) => numberIn(row[0]));
    // "up to 8" between levels is none.
    const levels = numbers.filter(isPositive).length;
    if (!levels || (levels < numbers.length && !(levels > 1 && /threads/i.test(table.columns[0])))) return [];
    return table.columns
      .map((column, index) => ({
        arm: armNamedIn(context, column),
        column: String(column),
        points: table.rows
          .map((row, place) => [numbers[place], numberIn(row[index])])
          .filter((point) => point.every(isNumber)),
      }))
      .filter(({ arm, points }, index) => index > 0 && arm !== null && points.length);
  }

  /** The number that a value is or begins with. */
  function numberIn(value) {
    if (isNumber(value)) return value;
    const found = /^\s*(\d+(?:\.\d+)?)/.exec(String(value ?? '').replace(/(\d)[,\u202f](?=\d{3})/g, '$1'));
    return found ? Number(found[1]) : null;
  }

  /** The arm with the longest name that a text contains, whatever stands between its words, or null. */
  function armNamedIn(context, text) {
    const plain = (name) =>
      ` ${String(name)
        .toLowerCase()
        .split(/[^\p{L}\p{N}]+/u)
        .filter(Boolean)
        .join(' ')} `;
    const named = context.allArms
      .filter((arm) => plain(nameOf(context, arm)).trim() && plain(text).includes(plain(nameOf(context, arm))))
      .sort((a, b) => nameOf(context, b).length - nameOf(context, a).length);
    return named.length ? named[0] : null;
  }

  /** A source's curves, pale and wide on an axis of their own, behind those measured here. */
  function originalOverlay(context, table, curves) {
    const { section, theme, log } = context;
    const unit = String(table.unit || '');
    const now = context.arms
      .map((arm) => ({
        name: nameOf(context, arm),
        cells: section.cells.filter((cell) => cell.arm === arm && isNumber(cell.rate) && !cell.cannot),
      }))
      .filter(({ cells }) => cells.length);
    const then = curves
      .filter(({ arm }) => context.arms.includes(arm))
      .map((curve) => ({ name: nameOf(context, curve.arm), ...curve }));
    const published = then.flatMap(({ points }) => points);
    const levels = [...new Set([...section.levels, ...published.map(([level]) => level)])].sort((a, b) => a - b);
    const right = valueAxis(
      published.map((point) => point[1]),
      { unit, log, zero: true, name: 'then' },
    );
    Object.assign(right.option, { position: 'right', splitLine: false });
    const pale = (color) => ({
      yAxisIndex: 1,
      z: 2,
      lineStyle: { color, width: 5, opacity: 0.3, type: 'solid' },
      itemStyle: { color, opacity: 0.4 },
    });
    const last = then.map(({ column, points }) => [column, points[points.length - 1][1]]);
    return {
      x: levelAxis(levels),
      y: valueAxis(
        now.flatMap(({ cells }) => cells.flatMap(rateEnds)),
        { unit: section.unit, log, zero: true, name: 'here' },
      ),
      right,
      marks: [
        ...then.map(({ name, points }) => {
          return { kind: 'line', name, y: right, points, more: pale(looks(name, theme).colour) };
        }),
        ...now.flatMap(({ name, cells }) => rateMarks(name, cells, false)),
      ],
      /** What was measured here and what was published, at a level. */
      tip: (level) => [
        threadsText(level),
        [
          ...now.flatMap(({ name, cells }) =>
            cells
              .filter((cell) => cell.threads === level)
              .map((cell) => [name, `${name}, here`, rateText(cell, section.unit)]),
          ),
          ...then.flatMap(({ name, column, points }) =>
            points
              .filter((point) => point[0] === level)
              .map((point) => [name, `then, ${column}`, human(point[1], unit, 4)]),
          ),
        ],
      ],
      about: `thin: here; pale: then, ${table.title}`,
      gist: `Here: ${rateGist(context)} Then: ${inOrder(last, unit)}.`,
      notes: [
        `Thin: measured here, left axis. Pale and wide: then, ${table.title}, right axis. ` +
          'Each axis has a scale of its own.',
      ],
    };
  }

  /** A column of a source's table as pale bars, one for each row. */
  function originalBars(context, table, column) {
    const { theme, log } = context;
    const unit = table.columns.length === 2 ? String(table.unit || '') : '';
    const entries = table.rows
      .map((row) => ({ label: String(row[0]), value: numberIn(row[column]), arm: armNamedIn(context, row[0]) }))
      .filter((entry) => isNumber(entry.value) && (entry.arm === null || context.arms.includes(entry.arm)));
    if (!entries.length) return null;
    const values = entries.map(({ value }) => value);
    const name = shorten(table.columns[column], 40);
    const colours = entries.map(({ arm }) => (arm === null ? theme.soft : looks(nameOf(context, arm), theme).colour));
    const figures = entries.map(({ label, value }) => [label, value]);
    return {
      x: valueAxis(values, { unit, log, zero: true, count: context.width < 480 ? 3 : 6, name }),
      y: rowAxis(entries, context),
      pointer: 'y',
      marks: [{ kind: 'rows', points: values.map((value, index) => [value, index]), colours }],
      tip: (index) => [
        `then, ${table.title}: ${table.columns[column]}`,
        [[null, entries[index].label, human(values[index], unit, 4)]],
      ],
      legend: false,
      height: 64 + rowsHeight(entries, context, 22),
      gist: `Then, ${table.title}, ${table.columns[column]}: ${inOrder(figures, unit)}.`,
    };
  }

  const PLOTS = new Map(
    Object.entries({
      throughput,
      latencies,
      tradeoff,
      rounds,
      runs,
      latency,
      cdf,
      series,
      cpu,
      device,
      space,
      stages,
      compare,
      original,
    }),
  );

  // ---------------------------------------------------------------- tables and files

  /** A figure of a table as people read it. */
  function cellText(value, unit) {
    if (value === null || value === undefined) return '–';
    if (unit === 'text' || unit === 'count' || unit === 'plain') return String(value);
    if (unit === 'quantile') return quantileText(value);
    if (unit === 'share') return percentText(value, 6);
    return unit === 'ratio' ? ratioText(value) : human(value, unit, 4);
  }

  /** An accessible table of a figure's numbers, the longest ones cut. */
  function tableElement({ columns, rows }, title) {
    const shown = columns.map((column, index) => [column, index]).filter(([column]) => !column.csvOnly);
    const isText = (column) => column.unit === 'text';
    const cell = (tag, scope, column, dir, text) =>
      make(tag, { scope, class: isText(column) ? undefined : 'number', dir: dir && 'auto' }, text);
    const head = make('tr', {}, ...shown.map(([column]) => cell('th', 'col', column, true, column.label)));
    const body = rows.slice(0, MOST_ROWS).map((row) => {
      const texts = shown.map(([column, index]) => [column, cellText(row[index], column.unit)]);
      const cells = texts.map(([column, text], place) =>
        place === 0
          ? cell('th', 'row', column, isText(column), text)
          : cell('td', undefined, column, isText(column), text),
      );
      return make('tr', {}, ...cells);
    });
    const cut = rows.length > MOST_ROWS ? `The first ${MOST_ROWS} of ${rows.length} rows; the CSV has all.` : null;
    return [
      make('table', {}, make('caption', {}, title), make('thead', {}, head), make('tbody', {}, ...body)),
      cut && make('p', { class: 'notes' }, cut),
    ];
  }

  /** RFC 4180, with the units in the names of the columns where they have one. */
  function csvText({ columns, rows }) {
    const field = (value) => {
      const text = value === null || value === undefined ? '' : String(value);
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return [columns.map((column) => column.key), ...rows].map((row) => row.map(field).join(',')).join('\r\n') + '\r\n';
  }

  /** Hands a file to the reader. */
  function save(name, type, content) {
    const address = URL.createObjectURL(new Blob([content], { type }));
    make('a', { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  // ---------------------------------------------------------------- figures

  /** Width and height of files, in pixels. */
  const EXPORT_WIDTH = 900;
  const EXPORT_HEIGHT = 480;
  /** Width of a figure in print: half of the paper, where the style sheet puts it. */
  const PRINT_WIDTH = 340;
  const CHART_HEIGHT = 280;
  /** Of those that stand side by side for all workloads. */
  const SMALL_HEIGHT = 190;

  /** One placeholder of the page with its chart, controls and table. */
  class Figure {
    /** @param {HTMLElement} element `figure.plot` */
    constructor(element) {
      this.element = element;
      this.plot = PLOTS.get(element.dataset.plot);
      this.trialIndex = Number(element.dataset.trial || 0);
      this.sectionIndex = Number(element.dataset.section || 0);
      this.trial = trials[this.trialIndex];
      this.section = this.trial && this.trial.sections[this.sectionIndex];
      /** The value chosen of the plot's options, if any was. */
      this.choice = null;
      this.log = Boolean(this.plot && this.plot.logAtFirst);
      const heading = element.querySelector(
        'figcaption h1, figcaption h2, figcaption h3, figcaption h4, figcaption h5',
      );
      this.title = (heading || element).textContent.trim();
      this.chart = null;
      this.drawn = false;
      /** Whether it is in or near the window. */
      this.near = false;
      /** Whether drawing it has failed. */
      this.broken = false;
      /** Whether something was chosen since it was drawn. */
      this.stale = false;
    }

    /** What a plot needs to know. */
    context(more = {}) {
      const allArms = this.trial.arms.map((_, index) => index);
      const hidden = hiddenArms[this.trialIndex];
      const context = {
        trial: this.trial,
        trialIndex: this.trialIndex,
        section: this.section,
        allArms,
        arms: allArms.filter((arm) => !hidden.has(arm)),
        log: this.log,
        choice: this.choice,
        theme: screenTheme(),
        width: printing ? PRINT_WIDTH : this.box.clientWidth || 480,
        ...more,
      };
      if (this.plot.levels) context.level = this.level(context);
      return context;
    }

    levels(context) {
      return this.plot.levelsOf ? this.plot.levelsOf(context) : this.section.levels;
    }

    /** The chosen level; at first the highest at which anything was measured. */
    level(context) {
      const levels = this.levels(context);
      const chosen = chosenLevel.get(this.section);
      if (levels.includes(chosen)) return chosen;
      const measured = levels.filter((level) =>
        this.section.cells.some((cell) => cell.threads === level && isNumber(cell.rate)),
      );
      return (measured.length ? measured : levels)[(measured.length || levels.length) - 1];
    }

    /** Makes the controls and draws, once. */
    draw() {
      if (this.drawn) return;
      this.drawn = true;
      this.element.classList.add('drawn');
      try {
        this.build();
        this.render();
      } catch (error) {
        this.broken = true;
        this.element.append(
          make('p', { class: 'notes' }, 'This figure could not be drawn; the tables of the page have its numbers.'),
        );
        console.error(`${this.element.id}: ${error.stack}`);
      }
    }

    /** Whether it has a legend: `switches` if its rows have names of their own. */
    hasLegend(context) {
      return this.plot.legend ? this.plot.legend(context) : true;
    }

    build() {
      this.box = this.element.appendChild(make('div', { class: 'chart', role: 'img', 'aria-label': this.title }));
      const context = this.context();
      this.tools = this.makeTools(context);
      this.legend = this.hasLegend(context) ? this.makeLegend() : null;
      this.notes = make('div', { class: 'notes' });
      this.table = make('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': `figures: ${this.title}` });
      this.details = make('details', { toggle: () => this.fillTable() }, make('summary', {}, 'figures'), this.table);
      this.box.before(this.tools, ...[this.legend].filter(Boolean));
      this.box.after(this.notes, this.details);
      new ResizeObserver(() => this.resized()).observe(this.box);
    }

    makeTools(context) {
      const left = [];
      const options = this.options(context);
      if (options.length > 1) left.push(selectElement(this.plot.choice, options, (value) => this.choose(value)));
      const levels = this.plot.levels ? this.levels(context) : [];
      if (levels.length > 1) {
        const words = levels.map((level) => ({ value: String(level), label: threadsText(level) }));
        const label = selectElement('level', words, (value) => chooseLevel(this.section, Number(value)));
        this.levelSelect = label.querySelector('select');
        left.push(label);
      }
      const scale = make('input', {
        type: 'checkbox',
        change: () => {
          this.log = scale.checked;
          this.render();
        },
      });
      scale.checked = this.log;
      left.push(make('label', { title: 'logarithmic scale' }, scale, 'log'));
      const right = [
        ['SVG', () => this.saveSvg()],
        ['CSV', () => this.saveCsv()],
      ].map(([name, click]) => {
        const words = { title: `save this figure as ${name}`, 'aria-label': `${name}: ${this.title}` };
        return make('button', { type: 'button', ...words, click }, name);
      });
      const words = { title: 'link to this figure', 'aria-label': `# link to this figure: ${this.title}` };
      const link = make('a', { href: `#${this.element.id}`, ...words }, '#');
      return make(
        'div',
        { class: 'tools' },
        make('div', { class: 'choose' }, ...left),
        make('div', { class: 'take' }, ...right, link),
      );
    }

    /** Buttons that hide arms; one stop for the tabulator key, arrow keys within. */
    makeLegend() {
      const buttons = this.trial.arms.map((name, arm) =>
        make(
          'button',
          {
            type: 'button',
            'aria-pressed': 'true',
            tabindex: arm === 0 ? 0 : -1,
            title: String(name),
            click: () => toggleArm(this.trialIndex, arm),
          },
          make('span', { class: 'sign' }),
          make('span', { class: 'name', dir: 'auto' }, String(name)),
        ),
      );
      const move = (event) => {
        const at = buttons.indexOf(document.activeElement);
        const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
        if (to === undefined || at < 0) return;
        event.preventDefault();
        const next = (to + buttons.length) % buttons.length;
        buttons.forEach((button, index) => button.setAttribute('tabindex', index === next ? 0 : -1));
        buttons[next].focus();
      };
      return make('div', { class: 'legend', role: 'toolbar', 'aria-label': 'arms shown', keydown: move }, ...buttons);
    }

    options(context) {
      return this.plot.options ? this.plot.options(context) : [];
    }

    choose(value) {
      this.choice = value;
      this.render();
    }

    /** Draws anew, at once if it can be seen, else when it comes into view. */
    refresh() {
      if (!this.drawn || this.broken) return;
      if (this.near || printing) {
        this.render();
        return;
      }
      this.markStale(true);
      this.pressLegend();
    }

    markStale(stale) {
      this.stale = stale;
      this.element.classList.toggle('stale', stale);
    }

    /** Brings it up to date. */
    update() {
      if (!this.drawn) this.draw();
      else if (this.stale && !this.broken) this.render();
    }

    /** Draws as everything is chosen now. */
    render() {
      this.markStale(false);
      const context = this.context();
      const view = context.arms.length ? this.plot.view(context) : null;
      if (this.levelSelect) this.levelSelect.value = String(context.level);
      this.paintLegend(context.theme);
      this.box.hidden = !view;
      if (view) this.paint(view, context);
      else this.dispose();
      const notes = view
        ? [...(view.notes || []), ...(this.plot === throughput ? missingText(context) : [])]
        : [this.emptyText(context)];
      this.notes.replaceChildren(...notes.map((note) => make('p', { dir: 'auto' }, note)));
      this.notes.prepend(make('p', { class: 'on-paper' }, this.chosenText(context)));
      if (view && view.alert)
        this.notes.prepend(make('p', {}, make('strong', { class: 'badge unequal' }, 'unequal'), ` ${view.alert}`));
      if (this.details.open) this.fillTable();
      else this.table.replaceChildren();
    }

    paint(view, context) {
      const height = view.height || (this.element.matches('.small') ? SMALL_HEIGHT : CHART_HEIGHT);
      this.box.style.height = `${height}px`;
      this.box.setAttribute('aria-label', [this.title, view.gist].filter(Boolean).join('. '));
      if (!this.chart) this.chart = echarts.init(this.box, null, { renderer: 'svg', width: context.width, height });
      this.chart.resize({ width: context.width, height, silent: true });
      this.chart.setOption(chartOption(context, view), { notMerge: true });
      const drawing = this.box.querySelector('svg');
      drawing.setAttribute('viewBox', `0 0 ${context.width} ${height}`);
      drawing.setAttribute('aria-hidden', 'true');
      this.width = context.width;
    }

    pressLegend() {
      if (!this.legend) return;
      const hidden = hiddenArms[this.trialIndex];
      [...this.legend.children].forEach((button, arm) => button.setAttribute('aria-pressed', String(!hidden.has(arm))));
    }

    paintLegend(theme) {
      this.pressLegend();
      if (!this.legend || this.legendTheme === theme) return;
      this.legendTheme = theme;
      [...this.legend.children].forEach((button, arm) =>
        button.firstChild.replaceChildren(swatch(this.trial.arms[arm], theme)),
      );
    }

    /** What is chosen, for paper, where no control shows it. */
    chosenText(context) {
      const options = this.options(context);
      const chosen = options.find(({ value }) => value === this.choice) || options[0];
      const level = context.level === undefined ? '' : threadsText(context.level);
      return [level, chosen ? chosen.label : ''].filter(Boolean).join(', ');
    }

    emptyText(context) {
      if (!context.arms.length) return 'All arms are hidden.';
      return ['Nothing was recorded for this figure.', ...missingText(context)].join(' ');
    }

    resized() {
      if (!printing && this.chart && this.box.clientWidth && this.box.clientWidth !== this.width) this.render();
    }

    dispose() {
      if (this.chart) this.chart.dispose();
      this.chart = null;
    }

    fillTable() {
      if (this.details.open)
        this.table.replaceChildren(...tableElement(this.plot.table(this.context(), false), this.title).filter(Boolean));
    }

    /** What a file shows: always light, complete in itself, and of one width. */
    exportView() {
      const plain = this.context();
      const legend = this.hasLegend(plain) === true;
      const where = [this.section.title, plain.level === undefined ? '' : threadsText(plain.level)]
        .filter(Boolean)
        .join(', ');
      const context = this.context({
        theme: THEMES.light,
        exporting: true,
        width: EXPORT_WIDTH,
        legend,
        heading: this.title,
        subheading: [this.trial.name, where, this.trial.kernel, `fstrial ${root.fstrial}`].filter(Boolean).join(' · '),
      });
      const view = context.arms.length ? this.plot.view(context) : null;
      return view && { option: chartOption(context, view), height: Math.max(EXPORT_HEIGHT, (view.height || 0) + 90) };
    }

    /** The file is complete before it is handed over: a download that begins later is not the reader's to a browser. */
    saveSvg() {
      const view = this.exportView();
      if (!view) return;
      const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: EXPORT_WIDTH, height: view.height });
      chart.setOption(view.option);
      save(`${this.element.id}.svg`, 'image/svg+xml', chart.renderToSVGString());
      chart.dispose();
    }

    saveCsv() {
      save(`${this.element.id}.csv`, 'text/csv;charset=utf-8', csvText(this.plot.table(this.context(), true)));
    }
  }

  /** What of a section is missing and why, a line for each arm. */
  function missingText(context) {
    return context.arms.flatMap((arm) => {
      const own = context.section.cells.filter((cell) => cell.arm === arm);
      const failed = own.filter((cell) => cell.failed).map((cell) => cell.threads);
      const last = failed.pop();
      const reasons = [...new Set(own.filter((cell) => cell.cannot).map((cell) => String(cell.cannot)))];
      return [
        ...(last === undefined
          ? []
          : [`${nameOf(context, arm)} failed with ${listText([...failed, threadsText(last)])}.`]),
        ...reasons.map((reason) => `${nameOf(context, arm)} cannot do this: ${reason}`),
      ];
    });
  }

  /** A labelled select; options with a `group` are put under its name. */
  function selectElement(label, options, change) {
    const groups = new Map();
    for (const { value, label: text, group } of options) {
      const option = make('option', { value }, text);
      groups.set(group, [...(groups.get(group) || []), option]);
    }
    const children = [...groups].flatMap(([group, members]) =>
      group ? [make('optgroup', { label: group }, ...members)] : members,
    );
    const select = make('select', { change: () => change(select.value) }, ...children);
    return make('label', {}, label, select);
  }

  // ---------------------------------------------------------------- the page

  const figures = [...document.querySelectorAll('figure.plot')]
    .map((element) => new Figure(element))
    .filter((figure) => figure.plot && figure.trial && figure.section);
  const figureOf = new Map(figures.map((figure) => [figure.element, figure]));
  const refreshWhere = (condition) => figures.filter(condition).forEach((figure) => figure.refresh());

  function toggleArm(trialIndex, arm) {
    const hidden = hiddenArms[trialIndex];
    if (!hidden.delete(arm)) hidden.add(arm);
    refreshWhere((figure) => figure.trialIndex === trialIndex);
  }

  function chooseLevel(section, level) {
    chosenLevel.set(section, level);
    refreshWhere((figure) => figure.section === section && figure.plot.levels);
  }

  // Figures that come near the window are drawn one for each frame, so that scrolling goes on between them.
  const waiting = new Set();
  function drawNext() {
    const [figure] = waiting;
    waiting.delete(figure);
    figure.update();
    if (waiting.size) requestAnimationFrame(drawNext);
  }
  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        const figure = figureOf.get(target);
        figure.near = isIntersecting;
        if (!isIntersecting || (figure.drawn && !figure.stale)) continue;
        if (!waiting.size) requestAnimationFrame(drawNext);
        waiting.add(figure);
      }
    },
    { rootMargin: '400px' },
  );
  figures.forEach((figure) => near.observe(figure.element));

  /** Draws the figure that the address names, so that the page stands still when it is scrolled to. */
  function followLink() {
    let name = '';
    try {
      name = decodeURIComponent(location.hash.slice(1));
    } catch {
      return; // an address that names nothing
    }
    const target = name && document.getElementById(name);
    if (!target) return;
    for (let around = target.closest('details'); around; around = around.parentElement.closest('details')) {
      around.open = true;
    }
    const figure = figureOf.get(target.closest('figure.plot'));
    if (figure) figure.update();
    target.scrollIntoView();
  }

  function preparePrint() {
    if (printing) return;
    printing = true;
    // What is folded up is not printed either.
    const seen = figures.filter(({ element }) => element.getClientRects().length > 0);
    seen.forEach((figure) => (figure.drawn ? figure.refresh() : figure.draw()));
  }

  function endPrint() {
    if (!printing) return;
    printing = false;
    refreshWhere(() => true);
  }

  window.addEventListener('hashchange', followLink);
  window.addEventListener('beforeprint', preparePrint);
  window.addEventListener('afterprint', endPrint);
  window.matchMedia('print').addEventListener('change', (event) => (event.matches ? preparePrint() : endPrint()));
  darkScreen.addEventListener('change', () => refreshWhere(() => true));
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape')
      figures.forEach((figure) => figure.chart && figure.chart.dispatchAction({ type: 'hideTip' }));
  });
  followLink();
})();
