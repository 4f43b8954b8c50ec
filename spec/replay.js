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
const { newTraceRecorder } = load('runtime/trace')
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

// named returns a reference to a definition that is not in the source.
function named(name, def) {
  const ref = node({ kind: 'name', name })
  table.set(ref.id, def)
  return ref
}

function printState(ctx) {
  const world = ctx.varStorage.vars.valueSeq().first().value.value.toOrderedMap()
  for (const part of ['mem', 'disk', 'clock']) {
    console.log(part, expressionToString(rv.toQuintEx(world.get(part))))
  }
}

// replay returns why a trace is rejected, or ''.
function replay(trace, off) {
  const evaluator = new Evaluator(table, newTraceRecorder(0, newRng(1n), 1), newRng(1n))
  const { builder, ctx } = evaluator
  const rules = ['history', ...off].map(r => `"${r}"`)
  const boot = call('boot',
    [String(trace.size), `Set(${rules})`].map(expression))
  const tables = named('TABLES', { kind: 'def', qualifier: 'pureval', name: 'TABLES',
    expr: expression(trace.tables), id: ids.nextId(), depth: 0 })
  const entry = { value: right(rv.mkList([])) }, param = ids.nextId()
  builder.paramRegistry.set(param, entry)
  const step = buildExpr(builder, call('exec',
    [tables, named('ENTRY', { kind: 'param', name: 'ENTRY', id: param })]))
  if (!isTrue(buildExpr(builder, boot)(ctx))) return 'boot'
  ctx.shift()
  for (let i = 0; i < trace.events.length; i++) {
    entry.value = right(rv.mkList(trace.events[i].map(n => rv.mkInt(BigInt(n)))))
    const result = step(ctx)
    if (!isTrue(result)) {
      if (process.env.DEBUG) printState(ctx)
      const why = result.isLeft() ? result.value.message : 'not allowed'
      const [kind, ...of] = trace.events[i]
      return `line ${trace.lines[i]}, entry ${i} of ${trace.events.length}: ` +
        `${trace.names[kind]} ${of.join(' ')}: ${why}`
    }
    ctx.shift()
    evaluator.trace.reset()
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
