// How every kafkajs client of the harness is made, and how values travel.
'use strict'

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
const { Kafka, logLevel } = require('kafkajs')

const toStderr = () => ({ namespace, label, log: { timestamp, message, ...rest } }) =>
  console.error(`${timestamp} ${label} ${namespace} ${message} ${JSON.stringify(rest)}`)

const kafka = bootstrap => new Kafka({ brokers: [bootstrap], logLevel: logLevel.INFO, logCreator: toStderr })

const decoded = value => (value === null ? null : Buffer.from(value, 'base64'))
const encoded = value => (value === null || value === undefined ? null : value.toString('base64'))

// [[topic, partition, offset], ...] as kafkajs groups it: [{ topic, partitions: [{ partition, offset }] }].
function offsetsByTopic(offsets) {
  const topics = new Map()
  for (const [topic, partition, offset] of offsets) {
    if (!topics.has(topic)) topics.set(topic, [])
    topics.get(topic).push({ partition, offset: String(offset) })
  }
  return [...topics].map(([topic, partitions]) => ({ topic, partitions }))
}

module.exports = { kafka, decoded, encoded, offsetsByTopic }
