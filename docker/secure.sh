#!/bin/sh
# Makes what a secured broker and its clients need, once, and runs `eosin` with the words that follow.
#
# In /etc/eosin: certificates (`eosin certs dev`), users with new passwords, and files by which the users log in:
# admin.properties for Eosin's and Kafka's own commands, app.librdkafka for librdkafka.
set -eu
umask 077
cd /etc/eosin
if ! [ -e users ]; then
    rm -rf certs
    eosin certs dev --names localhost,broker certs
    for user in admin app; do
        password=$(python -c 'import secrets; print(secrets.token_urlsafe(24))')
        echo "SCRAM-SHA-512=[name=$user,password=$password]" >> users.new
        cat > $user.properties <<END
security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location=/etc/eosin/certs/ca.pem
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="$user" password="$password";
END
        cat > $user.librdkafka <<END
security.protocol=SASL_SSL
ssl.ca.location=/etc/eosin/certs/ca.pem
sasl.mechanisms=SCRAM-SHA-512
sasl.username=$user
sasl.password=$password
END
    done
    mv users.new users
fi
exec eosin "$@"
