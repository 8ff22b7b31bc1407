// Lets Eosin's tests drive kafkajs. It reads one request per line on stdin and writes one answer per line on stdout, both
// JSON, as tests/support/real_clients/harness.py describes. Requests of one handle run in order, those of different
// handles side by side. The end of stdin ends the process.
'use strict'

const readline = require('readline')
const { Producer } = require('./producer')
const { Consumer } = require('./consumer')
const { Admin } = require('./admin')
const { faultOf } = require('./errors')

const KINDS = { producer: Producer, consumer: Consumer, admin: Admin }
const things = new Map()
const turns = new Map()

async function serve({ op, handle, args }) {
  const [kind, name] = op.split('.')
  if (name === 'open') {
    things.set(handle, new KINDS[kind](args))
    return null
  }
  const thing = things.get(handle)
  if (name === 'close' && !things.delete(handle)) return null
  const found = await thing[name](args, other => things.get(other))
  return found === undefined ? null : found
}

async function answer(request) {
  const told = { id: request.id }
  try {
    told.result = await serve(request)
  } catch (error) {
    told.error = faultOf(error)
  }
  process.stdout.write(JSON.stringify(told) + '\n')
}

process.on('unhandledRejection', error => console.error('unhandled:', error))
const lines = readline.createInterface({ input: process.stdin, crlfDelay: Infinity })
lines.on('line', line => {
  const request = JSON.parse(line)
  const before = turns.get(request.handle) || Promise.resolve()
  turns.set(request.handle, before.then(() => answer(request)))
})
lines.on('close', () => process.exit(0))
