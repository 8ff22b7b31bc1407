// A transactional copier of kafkajs, as an application is written, for `eosin lab run`: it reads `input` as a member of
// a group and writes each record to `output`, in transactions with its offsets.
//
// kafkajs sends the name of a group with offsets, and no member: the transactional id alone keeps a predecessor out. So
// the position is asked for after the fence, and remembered as long as the producer lives. After any error it makes a
// new producer.
'use strict'

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
const { Kafka, logLevel } = require('kafkajs')

const GROUP = 'copiers'
const MOST = 20
const PAUSE_MS = 100
const STUCK_AFTER_MS = 15_000

const kafka = new Kafka({
  brokers: process.env.KAFKA_BOOTSTRAP_SERVERS.split(','),
  logLevel: logLevel.ERROR,
  requestTimeout: 3000,
  retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 8 },
})
const consumer = kafka.consumer({ groupId: GROUP, heartbeatInterval: 200, maxWaitTimeInMs: 100, metadataMaxAge: 3000 })
const admin = kafka.admin()
const positions = new Map() // partition to the next offset, known since the fence of `producer`
let producer = null
let aliveAt = Date.now()

const pause = () => new Promise(resolve => setTimeout(resolve, PAUSE_MS))

async function newProducer() {
  const made = kafka.producer({ transactionalId: 'copier-1', idempotent: true, maxInFlightRequests: 1 })
  await made.connect()
  return made
}

async function committed(partition) {
  const [{ partitions }] = await admin.fetchOffsets({ groupId: GROUP, topics: ['input'] })
  return Math.max(0, Number(partitions.find(each => each.partition === partition).offset))
}

// Copies some records of a partition in one transaction.
async function copy({ batch, resolveOffset, heartbeat }) {
  const { partition } = batch
  producer = producer || (await newProducer())
  const transaction = await producer.transaction() // the first one fences the previous instance
  try {
    if (!positions.has(partition)) {
      const position = await committed(partition)
      positions.set(partition, position)
      consumer.seek({ topic: 'input', partition, offset: String(position) })
      await transaction.abort()
      return
    }
    const wanted = batch.messages.filter(each => Number(each.offset) >= positions.get(partition)).slice(0, MOST)
    if (!wanted.length) {
      await transaction.abort()
      resolveOffset(batch.lastOffset())
      return
    }
    const messages = wanted.map(({ key, value }) => ({ key, value, partition }))
    await transaction.send({ topic: 'output', messages })
    const next = Number(wanted[wanted.length - 1].offset) + 1
    const topics = [{ topic: 'input', partitions: [{ partition, offset: String(next) }] }]
    await transaction.sendOffsets({ consumerGroupId: GROUP, topics })
    await transaction.commit()
    positions.set(partition, next)
    resolveOffset(String(next - 1))
  } catch (error) {
    if (transaction.isActive()) await transaction.abort().catch(failed => console.error(`copier: ${failed.message}`))
    throw error
  }
  await heartbeat()
}

async function eachBatch(payload) {
  aliveAt = Date.now()
  const { partition, messages } = payload.batch
  try {
    await copy(payload)
  } catch (error) {
    console.error(`copier: a new producer after ${error.name}: ${error.message}`)
    if (producer !== null) producer.disconnect().catch(() => {})
    producer = null
    positions.clear()
    consumer.seek({ topic: 'input', partition, offset: messages[0].offset }) // asked for again once there is a fence
    await pause()
  }
}

// Ends the process when it makes no progress, for its supervisor to start it again.
function watch() {
  if (Date.now() < aliveAt + STUCK_AFTER_MS) return
  console.error('copier: stuck')
  process.exit(3)
}

async function main() {
  setInterval(watch, PAUSE_MS).unref()
  consumer.on(consumer.events.FETCH, () => (aliveAt = Date.now()))
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (!payload.restart) process.exit(1)
  })
  process.on('SIGTERM', async () => {
    await Promise.allSettled([consumer.disconnect(), admin.disconnect()])
    process.exit(0)
  })
  await admin.connect()
  await consumer.connect()
  await consumer.subscribe({ topics: ['input'], fromBeginning: true })
  await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch })
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
