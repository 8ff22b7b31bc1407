"""The rules of the judge, by what they are about. Each is a generator of sentences, one for each violation."""
