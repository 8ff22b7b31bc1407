// How every kafkajs client of the harness is made, and how values travel.
'use strict'

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
const { readFileSync } = require('fs')
const { Kafka, logLevel } = require('kafkajs')

const toStderr = () => ({ namespace, label, log: { timestamp, message, ...rest } }) =>
  console.error(`${timestamp} ${label} ${namespace} ${message} ${JSON.stringify(rest)}`)

const kafka = ({ bootstrap, access }) =>
  new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.INFO, logCreator: toStderr, ...(access && secured(access)) })

// Over TLS if there is an authority to trust, with a certificate (its key is in the same file), or by a mechanism of SASL.
function secured({ ca, certificate, mechanism, user, password, token }) {
  const read = file => readFileSync(file, 'utf-8')
  return {
    ssl: ca && { ca: read(ca), ...(certificate && { cert: read(certificate), key: read(certificate) }) },
    sasl: mechanism && {
      mechanism: mechanism.toLowerCase(),
      ...(token ? { oauthBearerProvider: async () => ({ value: token }) } : { username: user, password }),
    },
  }
}

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
