// SPDX-License-Identifier: Apache-2.0

// Replays traces on trace.qnt with Quint's own evaluator, many in one process, because `quint test`
// takes most of its time to parse and type them. Usage: node replay.js QUINT [--off=RULE,...]
// [--first] TRACE.json..., where QUINT is the folder with node_modules. Prints a line for each
// trace, with --first until one is rejected. The exit status is 1 if one is rejected.
const fs = require('fs'), path = require('path')
const [quint, ...args] = process.argv.slice(2)
const src = path.resolve(quint, 'node_modules/@informalsystems/quint/dist/src')
const load = file => require(path.join(src, file))
const parser = load('parsing/quintParserFrontend')
const { newIdGenerator } = load('idGenerator')
const { fileSourceResolver } = load('parsing/sourceResolver')
const { Evaluator, isTrue } = load('runtime/impl/evaluator')
const { noExecutionListener } = load('runtime/trace')
const { newRng } = load('rng')
const { buildExpr } = load('runtime/impl/builder')
const { rv } = load('runtime/impl/runtimeValue')
const { expressionToString } = load('ir/IRprinting')
const { right } = require(path.resolve(quint, 'node_modules/@sweet-monads/either'))

const ids = newIdGenerator()

// parse returns the definitions of trace.qnt and the lookup table of all its names.
function parse() {
  const file = path.resolve(__dirname, 'trace.qnt'), sources = fileSourceResolver(new Map())
  let phase = parser.parsePhase1fromText(ids, fs.readFileSync(file, 'utf8'), file)
  phase = parser.parsePhase2sourceResolution(ids, sources,
    sources.lookupPath(path.dirname(file), path.basename(file)), phase)
  phase = parser.parsePhase4toposort(parser.parsePhase3importAndNameResolution(phase))
  if (phase.errors.length > 0) {
    console.error(phase.errors)
    process.exit(2)
  }
  const defs = phase.resolver.collector.definitionsByModule.get('trace')
  return { table: phase.table, find: name => [defs.get(name)].flat()[0] }
}

const { table, find } = parse()
const node = x => ({ id: ids.nextId(), ...x })

function call(name, args) {
  const app = node({ kind: 'app', opcode: name, args })
  table.set(app.id, find(name))
  return app
}

function expression(text) {
  const p = parser.parseExpressionOrDeclaration(text, 'trace', ids, new Map())
  if (p.kind !== 'expr') throw new Error('cannot parse ' + text.slice(0, 300))
  return p.expr
}

// readLiteral returns the value of a literal of the translator. Quint's own parser takes longer for
// the tables of a trace than the replay.
function readLiteral(text) {
  const tokens = text.match(/->|[{}()[\],:]|\w+/g)
  let next = 0
  const take = () => tokens[next++]
  function readList(close, readItem) {
    const items = []
    while (tokens[next] !== close) {
      items.push(readItem())
      if (tokens[next] === ',') next++
    }
    next++
    return items
  }
  function readPair() {
    const key = readValue()
    next++ // ->
    return [key, readValue()]
  }
  function readField() {
    const name = take()
    next++ // :
    return [name, readValue()]
  }
  function readValue() {
    const token = take()
    switch (token) {
      case '{': return rv.mkRecord(readList('}', readField))
      case '[': return rv.mkList(readList(']', readValue))
      case '(': return rv.mkTuple(readList(')', readValue))
      case 'Set': next++; return rv.mkSet(readList(')', readValue))
      case 'Map': next++; return rv.mkMap(readList(')', readPair))
      case 'true': case 'false': return rv.mkBool(token === 'true')
      default: return rv.mkInt(BigInt(token)) // throws if it is no number
    }
  }
  return readValue()
}

// parameter returns a reference to a name whose value is assigned later, and the place for it.
function parameter(builder, name) {
  const place = {}, ref = node({ kind: 'name', name }), id = ids.nextId()
  table.set(ref.id, { kind: 'param', name, id })
  builder.paramRegistry.set(id, place)
  return [ref, place]
}

function printState(ctx) {
  const world = ctx.varStorage.vars.valueSeq().first().value.value.toOrderedMap()
  for (const part of ['mem', 'disk', 'clock']) {
    console.log(part, expressionToString(rv.toQuintEx(world.get(part))))
  }
}

// replay returns why a trace is rejected, or ''.
function replay(trace, off) {
  const { builder, ctx } = new Evaluator(table, noExecutionListener, newRng(1n))
  const rules = ['history', ...off].map(r => `"${r}"`)
  const boot = call('boot',
    [String(trace.size), `Set(${rules})`].map(expression))
  const [tables, tablesPlace] = parameter(builder, 'TABLES')
  const [entry, entryPlace] = parameter(builder, 'ENTRY')
  tablesPlace.value = right(readLiteral(trace.tables))
  const step = buildExpr(builder, call('exec', [tables, entry]))
  if (!isTrue(buildExpr(builder, boot)(ctx))) return 'boot'
  ctx.shift()
  for (let i = 0; i < trace.events.length; i++) {
    entryPlace.value = right(rv.mkList(trace.events[i].map(n => rv.mkInt(BigInt(n)))))
    const result = step(ctx)
    if (!isTrue(result)) {
      if (process.env.DEBUG) printState(ctx)
      const why = result.isLeft() ? result.value.message : 'not allowed'
      const [kind, ...of] = trace.events[i]
      return `line ${trace.lines[i]}, entry ${i} of ${trace.events.length}: ` +
        `${trace.names[kind]} ${of.join(' ')}: ${why}`
    }
    ctx.shift()
  }
  return ''
}

let rejected = 0, off = []
for (const arg of args.filter(a => a !== '--first')) {
  if (rejected > 0 && args.includes('--first')) break
  if (arg.startsWith('--off=')) {
    off = arg.slice(6).split(',')
    continue
  }
  const trace = JSON.parse(fs.readFileSync(arg, 'utf8'))
  const why = replay(trace, off)
  rejected += why ? 1 : 0
  const verdict = why ? 'rejected: ' + why : `valid, ${trace.events.length} entries`
  console.log(`${trace.name}: ${verdict}`)
}
process.exit(rejected > 0 ? 1 : 0)
